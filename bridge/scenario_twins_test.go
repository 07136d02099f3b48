package bridge_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/slurm/slurmsim"
)

// fate is what became of a job.
type fate struct {
	took       time.Duration // from submission to end
	gpuSeconds float64
	met        float64 // 1 or, as a mean, the share of deadlines met
	view       bridge.JobView
}

// afternoons is over how many worlds twins are compared: in a single one chance decides which of two jobs finds a hole.
const afternoons = 6

// playTwins plays crowded afternoons with one more job in each, and says what became of that one: means, and the view of the first. Everything else, arrivals
// and speeds included, is the same for all twins.
func playTwins(t *testing.T, cfg func(*bridge.Config), subject slurmsim.Submission) fate {
	t.Helper()
	return playTwinsSeen(t, cfg, subject, nil, nil)
}

// playTwinsSeen is playTwins on nodes that measure how busy each job keeps its GPUs (nil: they do not).
func playTwinsSeen(t *testing.T, cfg func(*bridge.Config), subject slurmsim.Submission, busy func(name string) float64, beside func(*world)) fate {
	t.Helper()
	var mean fate
	for k := range afternoons {
		f := playTwin(t, cfg, subject, k, busy, beside)
		mean.took += f.took / afternoons
		mean.gpuSeconds += f.gpuSeconds / afternoons
		mean.met += f.met / afternoons
		if k == 0 {
			mean.view = f.view
		}
	}
	return mean
}

// playTwin plays the afternoon whose crowd begins with its k-th job. beside, when it is not nil, submits what the subject's user submits with it.
func playTwin(t *testing.T, cfg func(*bridge.Config), subject slurmsim.Submission, k int, busy func(name string) float64, beside func(*world)) fate {
	t.Helper()
	s := site{nodes: 2, gpus: 4, cfg: cfg}
	if busy != nil {
		s.eye = &eye{busy: busy}
	}
	w := newWorld(t, s)
	crowd := func(i int) slurmsim.Submission {
		i += k
		iters := int64([]int{900, 2400, 600, 3600, 1500}[i%5])
		s := slurmsim.Submission{GPUs: []int{4, 2, 1, 4, 2}[i%5], Nodes: 1, User: "bob", UID: 1002, Body: training(iters), TimeLimit: 2 * time.Duration(iters) * time.Second}
		if i%4 == 3 {
			s.Comment = fmt.Sprintf("unisched:class=strict,deadline=now+%ds,ckpt=B:USR1,profile=skip,stop=iters:%d", iters*5/2, iters)
		} else {
			s.Comment = fmt.Sprintf("unisched:ckpt=B:USR1,profile=skip,stop=iters:%d", iters)
		}
		return s
	}
	var names []string
	add := func(i int) {
		names = append(names, fmt.Sprint("crowd", i))
		w.submit(names[i], crowd(i))
	}
	for i := range 4 {
		add(i)
	}
	w.run(10*time.Minute, nil)
	w.submit("subject", subject)
	if beside != nil {
		beside(w)
	}
	for i := 4; i < 14; i++ {
		w.run(8*time.Minute, nil)
		add(i)
	}
	w.until(24*time.Hour, "all end", func() bool { return w.finished("subject")() && w.finished(names...)() })
	v := w.view("subject")
	f := fate{took: v.Ended.Sub(v.Submitted), gpuSeconds: v.GPUSeconds, view: v}
	if v.Met != nil && *v.Met >= 0 {
		f.met = 1
	}
	return f
}

// subjects are the honest twins: 80 minutes of training on four GPUs, which save every five minutes.
func subjects() map[string]slurmsim.Submission {
	out := map[string]slurmsim.Submission{}
	for class, words := range map[string]string{"besteffort": "", "strict": "class=strict,deadline=now+4h,"} {
		s := slurmsim.Submission{GPUs: 4, Nodes: 1, Body: training(4800), TimeLimit: 3 * time.Hour, Comment: "unisched:" + words + "ckpt=B:USR1,profile=skip,stop=iters:4800"}
		s.Body.SaveEvery = 300
		out[class] = s
	}
	return out
}

// case 47: in the same worlds with the same arrivals, a job that hides its checkpoints or lies about its progress ends no earlier than its honest twin, and meets no
// more deadlines.
func TestScenarioLiarsGainNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("six afternoons for every lie: runs with the sweeps")
	}
	atTheEnd := func(says func(int64) int64) func(*slurmsim.Body) { // the last line is true: it completes with its declared iterations
		return func(b *slurmsim.Body) {
			b.Says = func(n int64) int64 {
				if n >= b.Iterations {
					return n
				}
				return says(n)
			}
		}
	}
	evict := func(c *bridge.Config) { c.Unconfirmed = bridge.Evict }
	lies := []struct {
		name string
		cfg  func(*bridge.Config)
		lie  func(*slurmsim.Body)
		// doubted and demoted are the classes in which it is found out.
		doubted, demoted string
		pays             bool
	}{
		{name: "hides its checkpoints", lie: func(b *slurmsim.Body) { b.Hides = true }},
		{name: "does not answer the signal", lie: func(b *slurmsim.Body) { b.Trap = slurmsim.Ignores }},
		{name: "does not answer, and the site requeues such jobs", cfg: evict, lie: func(b *slurmsim.Body) { b.Trap = slurmsim.Ignores }},
		{name: "says nothing, and the site requeues such jobs", cfg: evict, lie: func(b *slurmsim.Body) { b.Silent = true }, pays: true},
		{name: "claims twice its iterations", lie: func(b *slurmsim.Body) { b.Says = func(n int64) int64 { return 2 * n } }, doubted: "besteffort", demoted: "strict"},
		{name: "claims to be nearly done", lie: atTheEnd(func(n int64) int64 { return min(n*50, 4790) }), doubted: "besteffort"},
		{name: "jumps", lie: atTheEnd(func(n int64) int64 {
			if n > 600 {
				return 4700 + n/100
			}
			return n
		}), doubted: "besteffort"},
		{name: "claims half its iterations", lie: atTheEnd(func(n int64) int64 { return n / 2 })},
		{name: "claims next to none", lie: atTheEnd(func(n int64) int64 { return n / 20 }), demoted: "strict"},
		{name: "starts over again and again", lie: atTheEnd(func(n int64) int64 { return n/600*600 + n%7 }), demoted: "strict"},
	}
	for class, subject := range subjects() {
		honest := map[bool]fate{}
		for _, requeues := range []bool{false, true} {
			cfg := func(*bridge.Config) {}
			if requeues {
				cfg = evict
			}
			honest[requeues] = playTwins(t, cfg, subject)
			if v := honest[requeues].view; v.Doubted != "" || v.Demoted != nil {
				t.Errorf("%s: the honest twin is doubted %q, demoted %v", class, v.Doubted, v.Demoted)
			}
		}
		for _, c := range lies {
			t.Run(class+" "+c.name, func(t *testing.T) {
				s := subject
				c.lie(&s.Body)
				got := playTwins(t, c.cfg, s)
				want := honest[c.cfg != nil]
				// A checkpoint that is not asked for a second time is no gain: what a move costs is.
				t.Logf("the liar took %v on average, its honest twin %v", got.took.Round(time.Second), want.took.Round(time.Second))
				switch {
				case c.pays: // and docs/admission.md says so
				case class == "strict": // what it wants is its deadline, not to be early
					if got.met > want.met {
						t.Errorf("the liar met %.0f %% of its deadlines, its honest twin %.0f %%", 100*got.met, 100*want.met)
					}
				case got.took < want.took-want.took/20:
					t.Error("that is a gain")
				}
				if got.gpuSeconds < want.gpuSeconds-4*120 {
					t.Errorf("the liar used %.0f GPU-seconds, its honest twin %.0f", got.gpuSeconds, want.gpuSeconds)
				}
				if doubted := got.view.Doubted != ""; c.doubted == class && !doubted {
					t.Error("nobody doubts it")
				}
				if demoted := got.view.Demoted != nil; demoted != (c.demoted == class) {
					t.Errorf("demoted: %v", got.view.Demoted)
				}
			})
		}
	}
}

// What a user lets wait for the end of his own job gains it nothing: such jobs were spared once, which paid 1:51 h instead of 3:31 h.
func TestScenarioOwnDependentsGainNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("six afternoons for every lie: runs with the sweeps")
	}
	waits := func(w *world) {
		w.submit("dependent", slurmsim.Submission{GPUs: 1, Body: training(60), TimeLimit: 10 * time.Minute, After: w.ids["subject"]})
	}
	for class, subject := range subjects() {
		honest := playTwins(t, nil, subject)
		got := playTwinsSeen(t, nil, subject, nil, waits)
		t.Logf("%s: with dependents of its own %v and %.0f %% of its deadlines, without %v and %.0f %%", class, got.took.Round(time.Second), 100*got.met, honest.took.Round(time.Second), 100*honest.met)
		if got.took < honest.took-honest.took/20 || got.met > honest.met || got.gpuSeconds < honest.gpuSeconds-4*120 {
			t.Errorf("%s: that is a gain", class)
		}
	}
}

// Progress is held against the work of the GPUs where nodes measure it: none at full load is a stall, progress without load is doubted, and no figures say nothing.
func TestScenarioProgressAgainstGPUs(t *testing.T) {
	busy := func(f float64) *float64 { return &f }
	hangs := func(n int64) int64 { return min(n, 900) }
	for _, c := range []struct {
		name             string
		busy             *float64
		says             func(int64) int64
		stalled, doubted bool
	}{
		{name: "trains", busy: busy(0.6)},
		{name: "trains at full load", busy: busy(1)},
		{name: "hangs in communication", busy: busy(0.97), says: hangs, stalled: true},
		{name: "waits for data", busy: busy(0.3), says: hangs},
		{name: "idles and reports", busy: busy(0.001), doubted: true},
		{name: "not measured"},
		{name: "not measured, hangs", says: hangs},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, site{})
			s := slurmsim.Submission{GPUs: 2, Nodes: 1, Body: training(3600), Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:3600"}
			s.Body.Busy, s.Body.Says = c.busy, c.says
			w.submit("job", s)
			var doubted string
			w.until(3*time.Hour, "it ends", func() bool {
				doubted = cmp.Or(w.view("job").Doubted, doubted)
				return w.finished("job")()
			})
			idle := strings.Contains(doubted, "its GPUs were busy for 0.1 %")
			if got := w.noted("job", "stalled"); got != c.stalled || idle != c.doubted {
				t.Errorf("stalled %v, doubted %q", got, doubted)
			}
		})
	}
}
