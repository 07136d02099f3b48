package bridge_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/hooks/gpu"
	"unisched/slurm"
	"unisched/slurm/slurmsim"
)

// eye is what nodes with samplers see: how busy each job keeps its devices. It also gives the devices of a job numbers, as Slurm does.
type eye struct {
	w    *world
	busy func(name string) float64
	// blind nodes tell nothing; no minors as nvidia-smi, which does not know the numbers of the device files.
	blind    []string
	noMinors bool

	told    []bridge.GPULook
	devices map[string][]int // by "job restart node"
}

// numbered adds device numbers to what Slurm shows: the lowest free ones, kept for the whole run.
func (e *eye) numbered(s slurm.State) (slurm.State, error) {
	was := e.devices
	e.devices = map[string][]int{}
	used := map[string][]int{}
	key := func(j *slurm.Job, node string) string { return fmt.Sprint(j.ID, " ", j.Restarts, " ", node) }
	for pass := range 2 { // whoever has devices keeps them
		for i := range s.Jobs {
			j := &s.Jobs[i]
			j.NodeGPUs = slices.Clone(j.NodeGPUs)
			for k := range j.NodeGPUs {
				g := &j.NodeGPUs[k]
				have, ok := was[key(j, g.Node)]
				if ok != (pass == 0) {
					continue
				}
				for n := 0; !ok && len(have) < g.Count; n++ {
					if !slices.Contains(used[g.Node], n) {
						have = append(have, n)
					}
				}
				used[g.Node] = append(used[g.Node], have...)
				e.devices[key(j, g.Node)] = have
			}
		}
	}
	for i := range s.Jobs {
		for k := range s.Jobs[i].NodeGPUs {
			g := &s.Jobs[i].NodeGPUs[k]
			g.Indices = e.devices[key(&s.Jobs[i], g.Node)]
		}
	}
	return s, nil
}

// looks are new every second cycle. The vendor's index runs against the number of the device file, as it does on some boards.
func (e *eye) looks() []bridge.GPULook {
	now := e.w.sim.Now()
	if e.told != nil && now.Sub(e.told[0].At) < 2*e.w.cfg.Poll {
		return e.told
	}
	s, err := e.w.wire.State(e.w.t.Context(), now)
	if err != nil {
		return e.told
	}
	at := map[string]map[int]float64{}
	for _, j := range s.Jobs {
		for _, g := range j.NodeGPUs {
			for _, n := range g.Indices {
				if at[g.Node] == nil {
					at[g.Node] = map[int]float64{}
				}
				at[g.Node][n] = e.busy(j.Name)
			}
		}
	}
	e.told = nil
	for _, n := range s.Nodes {
		if slices.Contains(e.blind, n.Name) {
			continue
		}
		r := gpu.Report{SchemaVersion: 1, Time: now, Source: gpu.NVML}
		for i := range n.TotalGPUs() {
			minor := n.TotalGPUs() - 1 - i
			d := gpu.Sample{Index: i, Slice: -1, Minor: gpu.Of(float64(minor)), Health: gpu.Well, MIG: "off", Utilization: gpu.Of(100 * at[n.Name][minor])}
			if e.noMinors {
				d.Minor = gpu.Value{}
			}
			r.GPUs = append(r.GPUs, d)
		}
		e.told = append(e.told, bridge.GPULook{Node: n.Name, At: now, Report: r})
	}
	return e.told
}

// A job's reports are held against the work of its own devices, whatever its neighbours do; what nobody can tell accuses nobody.
func TestScenarioProgressAgainstItsOwnGPUs(t *testing.T) {
	hangs := func(n int64) int64 { return min(n, 900) }
	two := slurmsim.Submission{GPUs: 2, Nodes: 1}
	wide := slurmsim.Submission{GPUsPerNode: 4, Nodes: 2}
	for _, c := range []struct {
		name             string
		job              slurmsim.Submission
		busy, beside     float64 // of the job, of its neighbour
		says             func(int64) int64
		eye              eye
		stalled, doubted bool
	}{
		{name: "trains", job: two, busy: 0.6, beside: 0.001},
		{name: "hangs in communication", job: two, busy: 0.97, beside: 0.5, says: hangs, stalled: true},
		{name: "waits for data", job: two, busy: 0.2, beside: 1, says: hangs},
		{name: "computes for a tenth of the time", job: two, busy: 0.1, beside: 1},
		{name: "idles and reports, beside one that works", job: two, busy: 0.001, beside: 1, doubted: true},
		{name: "idles and reports, on two whole nodes", job: wide, busy: 0.001, doubted: true},
		{name: "idles and reports, on whole nodes without numbers", job: wide, busy: 0.001, eye: eye{noMinors: true}, doubted: true},
		{name: "which devices are its own is not known", job: two, busy: 0.001, beside: 0.001, eye: eye{noMinors: true}},
		{name: "one of its nodes tells nothing", job: wide, busy: 0.001, eye: eye{blind: []string{"n2"}}},
		{name: "no node tells anything", job: two, busy: 0.001, eye: eye{blind: []string{"n1", "n2"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := c.eye
			e.busy = func(name string) float64 {
				if name == "job" {
					return c.busy
				}
				return c.beside
			}
			w := newWorld(t, site{nodes: 2, gpus: 4, eye: &e})
			if c.job.GPUs > 0 {
				for i := range 3 {
					n := slurmsim.Submission{GPUs: 2, Nodes: 1, Body: training(5400), Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:5400"}
					w.submit(fmt.Sprint("beside", i), n)
				}
			}
			s := c.job
			s.Body, s.Comment = training(4200), "unisched:ckpt=B:USR1,profile=skip,stop=iters:4200"
			s.Body.Says = c.says
			w.submit("job", s)
			var doubted string
			w.until(4*time.Hour, "it ends", func() bool {
				doubted = cmp.Or(w.view("job").Doubted, doubted)
				return w.finished("job")()
			})
			idle := strings.Contains(doubted, "its GPUs were busy for 0.1 %")
			a := w.b.View().Actions
			if got := w.noted("job", "stalled"); got != c.stalled || (a.Stalls == 1) != c.stalled || idle != c.doubted || !c.doubted && doubted != "" {
				t.Errorf("stalled %v (%d), doubted %q", got, a.Stalls, doubted)
			}
		})
	}
}

// case 47: a job that holds GPUs, does nothing on them and reports what an honest one would is doubted where nodes measure, and ends no earlier than its honest twin.
func TestScenarioIdleLiarGainsNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("afternoons of twins: runs with the sweeps")
	}
	subject := subjects()["besteffort"]
	busy := func(of float64) func(string) float64 {
		return func(name string) float64 {
			if name == "subject" {
				return of
			}
			return 0.7
		}
	}
	honest := playTwinsSeen(t, func(*bridge.Config) {}, subject, busy(0.6), nil)
	liar := playTwinsSeen(t, func(*bridge.Config) {}, subject, busy(0), nil)
	t.Logf("the liar took %v on average, its honest twin %v", liar.took.Round(time.Second), honest.took.Round(time.Second))
	if honest.view.Doubted != "" || liar.view.Doubted == "" {
		t.Errorf("honest: doubted %q, liar: %q", honest.view.Doubted, liar.view.Doubted)
	}
	if liar.took < honest.took-honest.took/20 || liar.gpuSeconds < honest.gpuSeconds-4*120 {
		t.Errorf("the liar took %v and %.0f GPU-seconds, its honest twin %v and %.0f", liar.took, liar.gpuSeconds, honest.took, honest.gpuSeconds)
	}
}
