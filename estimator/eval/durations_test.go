package eval

import "testing"

func TestEvalDurations(t *testing.T) {
	rep, err := Durations(open(t, "throughput/pollux/*.csv"), open(t, "curves/pollux/*.csv"), DurationOptions{Jobs: 400, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range rep.Groups {
		t.Logf("%-6s %-10s n %4d err %.3f bias %+.3f cover %.2f", g.By, g.Value, g.N, g.Error, g.Bias, g.Coverage)
	}
	t.Log("jumps", rep.Jumps, "pending", rep.Pending)
}
