package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/bridge"
	"unisched/contrib/lab"
	"unisched/planner"
)

var zero = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return zero.Add(time.Duration(seconds) * time.Second) }

func on(shares ...planner.Share) planner.Placement { return planner.NewPlacement(shares...) }

// sample is a run in which everything went well: bert is profiled, preempted by strict, and comes back.
func sample() *result {
	met := 0
	r := &result{began: zero, alive: true, nodes: []planner.Node{{Name: "n1", GPUs: 4, Usable: true}, {Name: "n2", GPUs: 4, Usable: true}}}
	add := func(letter byte, name, class string, iters int64, v bridge.JobView, runs ...trained) *outcome {
		id := len(r.jobs) + 1
		v.Phase, v.SlurmState, v.Restart = bridge.Completed, "COMPLETED", len(runs)-1
		o := &outcome{played: played{spec: spec{letter: letter, name: name, class: class, wish: "class=" + class, iters: iters, limit: 5, shape: planner.Shape{int(runs[len(runs)-1].GPUs)}},
			id: id, view: v}, Submitted: v.Submitted, Ended: v.Ended, Stays: v.Stays, Runs: runs, EndIter: iters}
		r.jobs = append(r.jobs, o)
		return o
	}
	add('B', "bert", "besteffort", 1000, bridge.JobView{Submitted: at(0), Ended: at(180), Preemptions: 1, GPUSeconds: 500,
		Stays: []bridge.Stay{
			{Run: 0, From: at(2), To: at(12), Placement: on(planner.Share{Node: "n1", GPUs: 1}), Profile: true},
			{Run: 1, From: at(14), To: at(60), Placement: on(planner.Share{Node: "n1", GPUs: 4})},
			{Run: 2, From: at(105), To: at(180), Placement: on(planner.Share{Node: "n1", GPUs: 4})},
		},
		Returns: []bridge.Return{{Run: 1, At: at(15), Reached: 20, Saved: 25, Resumed: 25}, {Run: 2, At: at(106), Reached: 400, Saved: 402, Resumed: 402}},
	}, trained{0, 1, 1}, trained{25, 4, 1}, trained{402, 4, 1})
	add('S', "strict", "strict", 240, bridge.JobView{Submitted: at(40), Ended: at(100), Met: &met, Tiers: []planner.Tier{{At: at(130), Value: 100}},
		Stays: []bridge.Stay{{From: at(62), To: at(100), Placement: on(planner.Share{Node: "n1", GPUs: 4})}}}, trained{0, 4, 1})
	add('L', "long", "besteffort", 900, bridge.JobView{Submitted: at(0), Ended: at(170),
		Stays: []bridge.Stay{{From: at(1), To: at(170), Placement: on(planner.Share{Node: "n2", GPUs: 4})}}}, trained{0, 4, 1})
	m := add('M', "metric", "besteffort", 1500, bridge.JobView{Submitted: at(1), Ended: at(210), Stays: []bridge.Stay{{From: at(181), To: at(210),
		Placement: on(planner.Share{Node: "n1", GPUs: 1})}}}, trained{0, 1, 1})
	m.target, m.EndIter = "val_acc>=0.92", 220
	p := add('P', "plain", "plain", 100, bridge.JobView{}, trained{0, 2, 1})
	p.wish, p.view = "", bridge.JobView{}
	p.acct = lab.Accounted{State: "COMPLETED", Submit: at(40), Start: at(181), End: at(200), Nodes: "n1", GPUs: 2}
	p.Submitted, p.Ended = at(40), at(200)
	p.Stays = []bridge.Stay{{From: at(181), To: at(200), Placement: on(planner.Share{Node: "n1", GPUs: 2})}}
	r.replay()
	return r
}

func TestParseOutput(t *testing.T) {
	runs, end := parseOutput("start iter=0 gpus=1 nodes=1 step=0.4\nnoise\nstart iter=25 gpus=8 nodes=2 step=0.1\nend iter=1000 val_acc=0.9 weights=ab\n")
	if d := cmp.Diff([]trained{{0, 1, 1}, {25, 8, 2}}, runs); d != "" || end != 1000 {
		t.Errorf("end %d, runs %s", end, d)
	}
	if runs, end := parseOutput("Traceback\nstart iter=x\n"); runs != nil || end != 0 {
		t.Errorf("hostile output gives %v, %d", runs, end)
	}
}

// TestReplay works the plain schedule out by hand: bert and long take a node each for as long as they are measured to run, strict comes after the first.
func TestReplay(t *testing.T) {
	r := sample()
	var got [][2]int
	for _, o := range r.jobs {
		got = append(got, [2]int{int(o.PlainStart.Sub(zero).Seconds()), int(o.PlainEnd.Sub(zero).Seconds())})
	}
	// The start-up is 1 s. bert: 45 + 74 s for 975 iterations on 4 GPUs: 123 s for 1,000. metric waits since 1, then for the first free GPUs.
	want := [][2]int{{0, 123}, {152, 190}, {0, 169}, {123, 152}, {123, 142}}
	if d := cmp.Diff(want[0], got[0]); d != "" {
		t.Errorf("bert: %s", d)
	}
	if d := cmp.Diff(want[2], got[2]); d != "" {
		t.Errorf("long: %s", d)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestLanesHoldEveryGPUOnce(t *testing.T) {
	r := sample()
	for _, bars := range [][]bar{r.bars(), r.plainBars()} {
		lanes := r.lanes(bars)
		held := 0
		for _, l := range lanes {
			held += len(l.bars)
			for i, b := range l.bars {
				if i > 0 && b.from.Before(l.bars[i-1].to.Add(-slack)) {
					t.Errorf("%s.%d: %s and %s overlap", l.node, l.gpu, l.bars[i-1].job.name, b.job.name)
				}
			}
		}
		want := 0
		for _, b := range bars {
			want += b.gpus
		}
		if held != want || len(lanes) != 8 {
			t.Errorf("%d lanes hold %d pieces, want 8 and %d", len(lanes), held, want)
		}
	}
}

func TestGantt(t *testing.T) {
	var b strings.Builder
	sample().gantt(&b)
	for line := range strings.Lines(b.String()) {
		if len(line) > 81 {
			t.Errorf("wider than 80 columns: %q", line)
		}
	}
	want := `
Who held which GPUs (a column is 3s; small letters: a profile run)

  n1.0 bbbbBBBBBBBBBBBBBBBBSSSSSSSSSSSSS..BBBBBBBBBBBBBBBBBBBBBBBBBPPPPPP......
  n1.1 ....BBBBBBBBBBBBBBBBSSSSSSSSSSSSS..BBBBBBBBBBBBBBBBBBBBBBBBBPPPPPP......
  n1.2 ....BBBBBBBBBBBBBBBBSSSSSSSSSSSSS..BBBBBBBBBBBBBBBBBBBBBBBBBMMMMMMMMMM..
  n1.3 ....BBBBBBBBBBBBBBBBSSSSSSSSSSSSS..BBBBBBBBBBBBBBBBBBBBBBBBB............

  n2.0 LLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLL................
  n2.1 LLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLL................
  n2.2 LLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLL................
  n2.3 LLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLL................
       |         |         |         |         |         |         |         |
       0:00      0:30      1:00      1:30      2:00      2:30      3:00
                                                  ^ deadline of S (2:10)
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
}

// TestPicture holds that the picture is well-formed, shows every job, and does not believe names. Its file is among the artifacts of `go test -artifacts`.
func TestPicture(t *testing.T) {
	r := sample()
	r.jobs[2].name = `<b>&"`
	text := r.svg()
	if err := os.WriteFile(filepath.Join(t.ArtifactDir(), "demo.svg"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(strings.NewReader(text))
	titles := 0
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := tok.(xml.StartElement); ok {
			if e.Name.Local == "b" {
				t.Error("a name became an element")
			}
			if e.Name.Local == "title" {
				titles++
			}
		}
	}
	if want := 1 + len(r.bars()) + len(r.plainBars()); titles != want {
		t.Errorf("%d titles, want %d: one for the picture and one per bar", titles, want)
	}
}

// TestJudge breaks one promise after the other.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name, want string
		spoil      func(*result)
	}{
		{"all kept", "", func(*result) {}},
		{"late", "strict deadline was met", func(r *result) { r.job("strict").Ended = at(131) }},
		{"the daemon does not know that it was met", "strict deadline was met", func(r *result) { *r.job("strict").view.Met = -1 }},
		{"nobody preempted", "somebody was preempted", func(r *result) { r.job("bert").view.Preemptions = 0 }},
		{"resumed from too early", "came back", func(r *result) { r.job("bert").view.Returns[1].Resumed = 400 }},
		{"its output disagrees", "came back", func(r *result) { r.job("bert").Runs[2].Start = 0 }},
		{"an unseen run", "came back", func(r *result) { r.job("bert").Runs = append(r.job("bert").Runs, trained{402, 4, 1}) }},
		{"more returns than runs", "came back", func(r *result) { r.job("bert").view.Returns[1].Run = 9 }},
		{"lost iterations", "came back", func(r *result) { r.job("bert").view.LostIters = 3 }},
		{"ran to its maximum", "stopped early", func(r *result) { r.job("metric").EndIter = 1500 }},
		{"failed", "every job completed", func(r *result) { r.job("long").view.Phase = bridge.Failed }},
		{"plain failed", "every job completed", func(r *result) { r.job("plain").acct.State = "FAILED" }},
		{"too few iterations", "every job completed", func(r *result) { r.job("long").EndIter = 10 }},
		{"left held", "held, delayed or pinned", func(r *result) { r.leftovers = []string{"job 1 (PENDING): held"} }},
		{"still changed", "held, delayed or pinned", func(r *result) { r.job("long").view.Changed.Pinned = []string{"n1"} }},
		{"dead", "daemon is well", func(r *result) { r.alive = false }},
		{"errors in the log", "daemon is well", func(r *result) { r.errorLines = []string{"x"} }},
		{"refused plans", "daemon is well", func(r *result) { r.status.Actions.BadPlans = 1 }},
		{"plain Slurm did as well", "plain Slurm would have missed", func(r *result) { r.job("strict").PlainEnd = at(120) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := sample()
			c.spoil(r)
			err := r.judge(io.Discard)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestTables(t *testing.T) {
	var b strings.Builder
	r := sample()
	r.table(&b)
	r.comparison(&b)
	for line := range strings.Lines(b.String()) {
		if len(line) > 81 {
			t.Errorf("wider than 80 columns: %q", line)
		}
	}
	for _, want := range []string{"S strict  strict       0:40   1:40     2:10    yes", "first deadlines met       |                1 of 1 |                0 of 1",
		"Plain Slurm would have ended the strict job at 3:10, 1:00 too late."} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
