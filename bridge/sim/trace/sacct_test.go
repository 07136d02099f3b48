package trace_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/bridge/sim/trace"
	"unisched/planner"
)

// TestSacctFromTheField: what a history of years holds costs single rows at most, and no job is counted twice.
func TestSacctFromTheField(t *testing.T) {
	const head = "JobID|User|JobName|Submit|ElapsedRaw|State|ReqTRES|AllocTRES|Comment\n"
	const at = "2026-11-30T08:00:00"
	job := func(id, user string, gpus int, seconds int64) trace.Job {
		return trace.Job{ID: id, User: user, GPUs: gpus, Duration: time.Duration(seconds) * time.Second, Iterations: seconds, Class: planner.BestEffort}
	}
	row := func(tres string) string { return "1|ann|x|" + at + "|60|COMPLETED||" + tres + "|\n" }
	out := func(what string) []trace.Odd { return []trace.Odd{{What: what, Rows: 1, First: 2}} }
	columns := "a row of another number of columns, as a | in a name makes it: left out"
	for _, c := range []struct {
		name, text string
		jobs       []trace.Job
		odd        []trace.Odd
	}{
		{"case 15: typed count only", row("cpu=8,gres/gpu:v100=2"), []trace.Job{job("1", "ann", 2, 60)}, nil},
		{"case 15: both counts", row("gres/gpu:v100=2,gres/gpu=2"), []trace.Job{job("1", "ann", 2, 60)}, nil},
		{"case 17: two types", row("gres/gpu:a=2,gres/gpu:b=2"), []trace.Job{job("1", "ann", 4, 60)}, nil},
		{"case 18: MIG slices are no GPUs", row("gres/gpu=2,gres/gpu:nvidia_h200_nvl_4g.71gb=2"), nil, out("shards, MPS or MIG slices: left out")},
		{"case 20: null words", row("(null)"), nil, out("no GPUs: left out")},
		{"resources of no known form", row("gres/gpu=many"), nil, out("resources that cannot be read: left out")},
		{"a number beyond all clusters", row("gres/gpu=1000000000"), nil, out("more than 65,536 GPUs: left out")},
		{"case 14: a heterogeneous component", "1+1|ann|x|" + at + "|60|COMPLETED||gres/gpu=1|\n", nil, out("a step or part of a heterogeneous job: left out")},
		{"case 10: a requeued job is one job", "1|ann|x|" + at + "|60|PREEMPTED||gres/gpu=1|\n1|ann|x|2026-11-30T09:00:00|40|COMPLETED||gres/gpu=1|\n",
			[]trace.Job{job("1", "ann", 1, 100)}, nil},
		{"case 10: requeued before it ran", "1|ann|x|" + at + "|0|REQUEUED||gres/gpu=1|\n1|ann|x|" + at + "|40|COMPLETED||gres/gpu=1|\n",
			[]trace.Job{job("1", "ann", 1, 40)}, out("no run time: left out")},
		{"case 11: a number given twice is two jobs", "1|old|x|" + at + "|60|COMPLETED||gres/gpu=8|\n1|ann|x|" + at + "|40|COMPLETED||gres/gpu=1|\n1|ann|x|" + at + "|2|COMPLETED||gres/gpu=1|\n",
			[]trace.Job{job("1", "old", 8, 60), job("1#2", "ann", 1, 42)}, nil},
		{"case 50: the separator in a name", "1|ann|x|y|z|" + at + "|60|COMPLETED||gres/gpu=1|\n", []trace.Job{job("1", "ann", 1, 60)}, nil},
		{"case 50: the separator in a comment", "1|ann|x|" + at + "|60|COMPLETED||gres/gpu=1|a|b unisched:class=strict,deadline=now+1h\n", []trace.Job{
			{ID: "1", User: "ann", GPUs: 1, Duration: time.Minute, Iterations: 60, Class: planner.Strict, Tiers: []trace.Tier{{After: time.Hour, Value: 100}}}}, nil},
		{"case 50: the separator in both", "1|ann|x|y|" + at + "|60|COMPLETED||gres/gpu=1|a|b\n", nil, out(columns)},
		{"case 50: a line break in a name", "1|ann|x\n", nil, out(columns)},
		{"cases 2 and 5: one bad time costs one row", "1|ann|x|Unknown|60|COMPLETED||gres/gpu=1|\n2|ann|x|" + at + "|60|COMPLETED||gres/gpu=1|\n", []trace.Job{job("2", "ann", 1, 60)},
			out("a time that cannot be read: left out")},
		{"an elapsed time of no known form", "1|ann|x|" + at + "|NaN|COMPLETED||gres/gpu=1|\n", nil, out("a time that cannot be read: left out")},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := read(t, "sacct", head+c.text)
			if d := cmp.Diff(c.jobs, tr.Jobs); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(append([]trace.Odd{}, c.odd...), tr.Odd); d != "" {
				t.Error(d)
			}
		})
	}
}
