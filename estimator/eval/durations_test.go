package eval

import "testing"

func TestEvalDurations(t *testing.T) {
	rep, err := Durations(open(t, "throughput/pollux/*.csv"), open(t, "curves/pollux/*.csv"), DurationOptions{Jobs: 400, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range rep.Groups {
		if g.By == "age" && g.Value == "50%" && g.Error > 0.10 {
			t.Errorf("mean error at mid-run %.3f", g.Error)
		}
		t.Logf("| %s | %s | %d | %.1f %% | %+.1f %% | %.0f %% |", g.By, g.Value, g.N, 100*g.Error, 100*g.Bias, 100*g.Coverage)
	}
	t.Log("jumps", rep.Jumps, "pending", rep.Pending)
}
