package eval

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// fixture is a small table of the Pollux format: exact ring times, so that the paper's rule is exact too.
const fixture = `placement,local_bsz,step_time,sync_time
1,32,1.0,0
2,32,1.1,0.1
11,32,1.2,0.2
4,32,1.15,0.1
22,32,1.3,0.3
13,32,1.3,0.3
oops,32,1,1
4,32,-5,0
4,x,1,0
`

func TestSpeedOfFixture(t *testing.T) {
	rep, err := Speed([]File{{"dir/tiny.csv", strings.NewReader(fixture)}}, SpeedOptions{Format: "pollux"})
	if err != nil {
		t.Fatal(err)
	}
	if rep.N != 3 || rep.Skipped != 3 || rep.PaperRule.N != 3 || float64(rep.PaperRule.Worst) > 1e-9 {
		t.Errorf("%+v", rep)
	}
	if rep.AfterOneLease.N != 3 || rep.ByModel[0].Model != "tiny" || rep.ByGPUs[0].GPUs != 4 || rep.ByGPUs[0].N != 3 {
		t.Errorf("%+v", rep)
	}
	keys := map[string]any{}
	b, _ := json.Marshal(rep)
	if err := json.Unmarshal(b, &keys); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"schema_version", "mean_abs_error", "p90_abs_error", "p95_abs_error", "worst", "n", "by_gpus", "paper_rule", "after_one_lease", "skipped"} {
		if _, ok := keys[k]; !ok {
			t.Errorf("no %q in %s", k, b)
		}
	}
}

func TestSpeedOfIterationTimes(t *testing.T) {
	const rows = "set,app,gpus,samples,mean_s,median_s,std_s\na,m,1,10,1,1,0.1\na,m,2,10,1.1,1,0.1\na,m,16,10,1.2,1,0.1\nb,n,4,10,1,1,0.1\n"
	rep, err := Speed([]File{{"t.csv", strings.NewReader(rows)}}, SpeedOptions{Format: "iteration-times", NodeGPUs: 4})
	if err != nil || rep.N != 1 || rep.Skipped != 1 {
		t.Fatalf("%v %+v", err, rep)
	}
	b, err := json.Marshal(rep)
	if err != nil || !strings.Contains(string(b), `"after_one_lease":{"mean_abs_error":null`) {
		t.Errorf("%v %s", err, b)
	}
}

// A metric that falls is an error rate: its best value is the lowest.
func TestCurvesOfAnErrorRate(t *testing.T) {
	var b strings.Builder
	b.WriteString("progress,iteration,metric\n")
	for i := range 40 {
		fmt.Fprintf(&b, "%d,%d,%.4f\n", i, 100*(i+1), 0.2+0.7*math.Exp(-float64(i)/6))
	}
	rep, err := Curves([]File{{"wer-1.csv", strings.NewReader(b.String())}}, CurveOptions{Format: "pollux", At: []float64{0.5}, Target: 0.97})
	if err != nil || len(rep.Points) != 1 || rep.Points[0].Runs != 1 || !(rep.Points[0].Error < 0.15) {
		t.Errorf("%v %+v", err, rep)
	}
}

func TestBadTables(t *testing.T) {
	for name, c := range map[string]struct{ format, text string }{
		"unknown format": {"csv", fixture},
		"missing column": {"pollux", "placement,step_time\n1,1\n"},
		"empty":          {"pollux", ""},
	} {
		if _, err := Speed([]File{{"x", strings.NewReader(c.text)}}, SpeedOptions{Format: c.format}); err == nil {
			t.Errorf("%s: no error", name)
		} else if name != "empty" && !errors.Is(err, ErrFormat) && !errors.Is(err, ErrOption) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCurvesCountWhatTheySkip(t *testing.T) {
	var b strings.Builder
	b.WriteString("file,step,steps_total,val_loss,train_time_ms\n")
	row := func(f string, x int, v float64) {
		s, _ := json.Marshal([]any{x, v})
		b.WriteString(f + "," + strings.Trim(strings.Replace(string(s), ",", ",0,", 1), "[]") + ",0\n")
	}
	for x := 1; x <= 40; x++ {
		row("counts", x, 2+3*math.Exp(-float64(x)/5))
		row("late", x, 5-float64(x*x*x)/100000)
		row("early", x, 1)
	}
	row("short", 1, 3)
	b.WriteString("broken,nan,0,nan,0\n")
	rep, err := Curves([]File{{"s.csv", strings.NewReader(b.String())}}, CurveOptions{Format: "steploss", At: []float64{0.3, 0.5}, Target: 0.99})
	if err != nil {
		t.Fatal(err)
	}
	if p := rep.Points[1]; p.Runs != 1 || p.Skipped < 3 || float64(p.Error) >= float64(p.Baseline) {
		t.Errorf("%+v", rep.Points)
	}
	if _, ok := rep.ByGroup["steploss"]; !ok {
		t.Error("no group")
	}
}

func TestDigits(t *testing.T) {
	for s, want := range map[string][]int{"1": {1}, "142": {4, 2, 1}, "04": {4}, "": nil, "4x": nil} {
		if got := digits(s); !slices.Equal(got, want) {
			t.Errorf("%q: %v", s, got)
		}
	}
}

// FuzzTables reads tables of strangers in every format.
func FuzzTables(f *testing.F) {
	f.Add("pollux", fixture)
	f.Add("iteration-times", "set,app,gpus,samples,mean_s,median_s,std_s\na,m,1,10,1,1,0.1\na,m,2,0,1.1,1,-3\na,m,1e9,10,1.2,1,0.1\n")
	f.Add("mlperf", "submitter,system,benchmark,run,x,value\na,b,c,0,1,0.1\na,b,c,0,2,0.2\n\"")
	f.Add("steploss", "file,step,val_loss\na,1,3\na,2,2.5\na,3,2.3\na,4,2.2\na,5,2.1\na,6,2\na,9,1\n")
	f.Add("pollux", "iteration,metric\n1,0.1\n2,0.2\n3,0.3\n4,0.35\n5,0.37\n6,0.39\n7,0.5\n20,0.6\n")
	f.Fuzz(func(t *testing.T, format, text string) {
		if len(text) > 1<<14 {
			return
		}
		if rep, err := Speed([]File{{"f", strings.NewReader(text)}}, SpeedOptions{Format: format}); err == nil {
			if _, err := json.Marshal(rep); err != nil {
				t.Fatal(err)
			}
		}
		if rep, err := Curves([]File{{"f", strings.NewReader(text)}}, CurveOptions{Format: format, At: []float64{0.3, 0.7}, Target: 0.99}); err == nil {
			if _, err := json.Marshal(rep); err != nil {
				t.Fatal(err)
			}
		}
	})
}
