package bridge_test

import (
	"strings"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/slurm/slurmsim"
)

// case 34: the newest checkpoint cannot be read. The job is put back, finds an older one and completes; it is not moved again. One that can never resume fails in the end, as
// it would by itself, and its user reads why.
func TestScenarioResumeFails(t *testing.T) {
	for _, c := range []struct {
		name  string
		fails int
		phase bridge.Phase
	}{
		{"once", 1, bridge.Completed},
		{"twice", 2, bridge.Completed},
		{"always", 1000, bridge.Failed},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, site{nodes: 1, gpus: 4})
			s := slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: training(9000), Comment: "unisched:profile=skip,stop=iters:9000,ckpt=B:USR1"}
			s.Body.FailResumes = c.fails
			w.submit("victim", s)
			w.until(15*time.Minute, "the victim runs", func() bool { return w.running("victim") && w.view("victim").Iter > 60 })
			w.urgent("strict", 600, 30*time.Minute)
			w.until(9*time.Hour, "all end", func() bool { return w.view("victim").Phase == c.phase && w.finished("victim", "strict")() })
			w.checkMet("strict")
			v := w.view("victim")
			if !w.noted("victim", "resume-failed") || !strings.HasPrefix(v.NoPreempt, "resume-failed: run 1 ended with exit 1") && !strings.HasPrefix(v.NoPreempt, "resume-failed: run 2") &&
				!strings.HasPrefix(v.NoPreempt, "resume-failed: run 3") {
				t.Errorf("told %v, no-preempt %q", w.noted("victim", "resume-failed"), v.NoPreempt)
			}
			if starts, _ := w.startsOf("victim"); len(starts) != 2+min(c.fails, 2) {
				t.Errorf("started %d times", len(starts))
			}
			w.clean()
		})
	}
}

// A job that fails by itself after it has come back is its own failure.
func TestScenarioFailureAfterAResumeIsItsOwn(t *testing.T) {
	w := newWorld(t, site{nodes: 1, gpus: 4})
	s := slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: training(1200), Comment: "unisched:profile=skip,stop=iters:9000,ckpt=B:USR1"}
	s.Body.Fail = 3
	w.submit("victim", s)
	w.until(15*time.Minute, "the victim runs", func() bool { return w.running("victim") && w.view("victim").Iter > 60 })
	w.urgent("strict", 600, 20*time.Minute)
	w.until(3*time.Hour, "all end", w.finished("victim", "strict"))
	if v := w.view("victim"); v.Phase != bridge.Failed || w.noted("victim", "resume-failed") || v.Preemptions != 1 {
		t.Errorf("phase %s, %d preemptions, resume-failed %v", v.Phase, v.Preemptions, w.noted("victim", "resume-failed"))
	}
}
