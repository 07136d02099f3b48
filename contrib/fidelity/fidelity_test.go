package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/bridge"
	"unisched/bridge/siteconfig"
	"unisched/contrib/fidelity/job"
	"unisched/planner/milp/highs"
	"unisched/slurm/comment"
)

func TestMain(m *testing.M) {
	highs.MaybeChild()
	os.Exit(m.Run())
}

// Both loads: as many jobs as the share says, the same ones for the same seed, inside the window, each with a wish that the daemon understands, and a time of an
// iteration for every shape on which it may find itself.
func TestLoads(t *testing.T) {
	for _, l := range []load{{360, 0.25, 15, 1}, {720, 0.25, 15, 1}, {720, 1, 30, 2}} {
		jobs := l.jobs()
		if d := cmp.Diff(jobs, l.jobs()); d != "" || len(jobs) != int(float64(l.Jobs)*l.Share) {
			t.Errorf("%+v: %d jobs, a second time %s", l, len(jobs), d)
		}
		classes := map[string]int{}
		for _, j := range jobs {
			classes[j.Class]++
			w, errs := comment.Parse(j.Wish(), comment.Context{Now: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)})
			if errs != nil || len(w.Tiers) != len(j.Tiers) {
				t.Errorf("%s: %q: %v", j.ID, j.Wish(), errs)
			}
			if j.Submit < 0 || j.Submit > l.window() || j.Iterations <= 0 || j.Duration < l.scaled(4*time.Minute)-time.Second {
				t.Errorf("%+v", j)
			}
			if len(j.Tiers) > 0 && j.Tiers[0].After < j.Duration+sloUnits*l.unit()-time.Second {
				t.Errorf("%s: deadline %v of a job of %v", j.ID, j.Tiers[0].After, j.Duration)
			}
			text, err := j.Text()
			if back, err2 := job.Parse(text); err != nil || err2 != nil || !cmp.Equal(back, j) {
				t.Errorf("%s does not survive its text: %v, %v", j.ID, err, err2)
			}
		}
		if classes["strict"] == 0 || classes["soft"] == 0 || classes["besteffort"] == 0 {
			t.Errorf("%+v: %v", l, classes)
		}
	}
}

// The time of an iteration: the fewest nodes are the requested speed, more nodes are never faster, and the luck of a run is its own but always the same.
func TestStep(t *testing.T) {
	for _, s := range (load{360, 0.5, 15, 3}).jobs() {
		fewest := (s.GPUs + gpusPerNode - 1) / gpusPerNode
		plain := s
		plain.Noise = 0
		if got := plain.Step(s.GPUs, fewest, 0); got != 100*time.Millisecond {
			t.Errorf("%s: %v on %d GPUs of %d nodes", s.ID, got, s.GPUs, fewest)
		}
		for n := fewest; n < s.GPUs; n++ {
			if plain.Step(s.GPUs, n+1, 0) < plain.Step(s.GPUs, n, 0) {
				t.Errorf("%s (%s): faster on %d nodes than on %d", s.ID, s.Model, n+1, n)
			}
		}
		one, again, two := s.Step(s.GPUs, fewest, 1), s.Step(s.GPUs, fewest, 1), s.Step(s.GPUs, fewest, 2)
		if one != again || one == two {
			t.Errorf("%s: the luck of run 1 is %v and %v, of run 2 %v", s.ID, one, again, two)
		}
	}
}

// small is a short load on slurmsim with the configuration that the lab writes, in short.
func small(t *testing.T) (flags, record) {
	t.Helper()
	site := siteconfig.Defaults()
	if err := site.Validate(); err != nil {
		t.Fatal(err)
	}
	f := flags{out: t.TempDir(), load: load{360, 0.02, 15, 5}}
	r := record{Load: f.load, Unit: f.load.unit(), Zero: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC),
		Config: "[bridge]\nstage = \"strict\"\nunit = \"20s\"\npoll = \"1s\"\nprofile_time = \"20s\"\ncheckpoint_timeout = \"20s\"\n"}
	for _, s := range f.load.jobs() {
		r.Jobs = append(r.Jobs, jobRecord{Spec: s, Submitted: s.Submit})
	}
	return f, r
}

// All jobs of a small load end on slurmsim, equal seeds give equal ends, and a run compared with itself is within every bound.
func TestVirtual(t *testing.T) {
	f, real := small(t)
	a, err := playVirtual(t.Context(), f, real, 1)
	if err != nil {
		t.Fatal(err)
	}
	b, err := playVirtual(t.Context(), f, real, 1)
	if err != nil {
		t.Fatal(err)
	}
	for i, j := range a.Jobs {
		if j.View.Phase != bridge.Completed || !j.View.Ended.Equal(b.Jobs[i].View.Ended) {
			t.Errorf("%s: %s at %v, a second time at %v", j.Spec.ID, j.View.Phase, j.View.Ended, b.Jobs[i].View.Ended)
		}
	}
	var out bytes.Buffer
	if err := compare(&out, a, []record{b}); err != nil || !strings.Contains(out.String(), "weighted miss true, mean JCT true, deadlines decided by over 2 units true") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// Deadlines are compared one by one: one that is decided otherwise is named, and counts against the simulations when it had slack, or was clear.
func TestDecide(t *testing.T) {
	zero := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	s := time.Second
	make := func(ends ...time.Duration) record {
		r := record{Unit: 20 * s}
		for i, e := range ends {
			long := []time.Duration{80 * s, 10 * s}[i%2]
			r.Jobs = append(r.Jobs, jobRecord{Spec: job.Spec{ID: "J", Class: "strict", Duration: long, Tiers: []job.Tier{{After: 100 * s, Value: 100}}},
				View: bridge.JobView{Phase: bridge.Completed, Submitted: zero, Ended: zero.Add(e)}})
		}
		return r
	}
	sims := []record{make(95*s, 105*s, 30*s, 130*s, 160*s), make(95*s, 105*s, 30*s, 90*s, 160*s), make(95*s, 95*s, 30*s, 130*s, 160*s)}
	got := decide(make(90*s, 90*s, 20*s, 20*s, 150*s), sims)
	got.median, got.p90 = 0, 0
	for i := range got.odd {
		got.odd[i] = got.odd[i][strings.Index(got.odd[i], "real"):]
	}
	want := verdicts{all: 5, alike: 3, slack: 2, slackAlike: 0, clear: 3, clearAlike: 2, odd: []string{"real end 1m30s, simulated ends [1m45s 1m45s 1m35s]",
		"real end 20s, simulated ends [2m10s 1m30s 2m10s]"}}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(verdicts{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
