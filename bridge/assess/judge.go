package assess

import (
	"fmt"

	"unisched/bridge/sim"
)

// Verdict is the answer.
type Verdict struct {
	Worth   bool     `json:"worth_it"`
	Text    string   `json:"text"`
	Reasons []Reason `json:"reasons"`
}

// Reason is one thing that speaks for it or against it, as a stable code and a sentence.
type Reason struct {
	Code string `json:"code"`
	For  bool   `json:"for"`
	Text string `json:"text"`
}

// The codes of reasons. The first three are properties of the jobs that no figure outweighs.
const (
	SeparatePools = "separate-pools" // jobs with deadlines and the others share no nodes
	FixedGangs    = "fixed-gangs"    // gangs that can neither be stopped nor resized
	FewLong       = "few-long-jobs"  // a small cluster of few long jobs
	Idle          = "idle"           // so little load that hardly anybody waits
	Misses        = "misses"         // deadlines met, beside the best of what a site can do without
	JobTimes      = "job-times"      // completion times of best effort
	Unfinished    = "unfinished"
	NotSimulated  = "not-simulated"
)

// The thresholds. A gain has to pay for an installation with rights over everybody's jobs.
const (
	gangShare   = 0.8  // of the GPU time in multi-GPU jobs that cannot be stopped
	fewAtOnce   = 6.0  // jobs at once on average
	smallGPUs   = 32   // of a small cluster
	longJob     = 8.0  // hours: half of the GPU time is in longer ones
	idleLoad    = 0.3  // of the GPUs
	missGain    = 0.05 // of all deadline value
	missSame    = 0.01
	timeGain    = 0.8 // of the completion time of best effort
	timeNoWorse = 1.1
)

// Compared are the figures of the simulation: ours, and what a site can do without: the best fixed reservation that was tried (nil: none makes sense) and plain
// Slurm's backfill.
type Compared struct {
	Ours     *sim.Figures `json:"unisched"`
	Reserved *sim.Figures `json:"reserved"`
	Plain    *sim.Figures `json:"backfill"`
	// SLO is how many of the simulated jobs have deadlines: what one of them weighs is no difference.
	SLO int `json:"slo_jobs"`
}

// WholeEDF is the name of the policy that stands in where no reservation leaves room for both sides: earliest deadline first on all nodes.
const WholeEDF = "edf"

// Judge weighs the mix and the figures.
func Judge(h History, m Mix, c Compared) Verdict {
	v := Verdict{Reasons: structure(h, m)}
	stop := len(v.Reasons) > 0
	gain, more := figures(c)
	v.Reasons = append(v.Reasons, more...)
	if m.Load < idleLoad {
		v.Reasons = append(v.Reasons, Reason{Idle, false, fmt.Sprintf("the jobs ask for %.0f %% of the GPU time there is: hardly anybody waits long", 100*m.Load)})
	}
	v.Worth = gain && !stop
	switch {
	case v.Worth:
		v.Text = "Worth it."
	case stop && gain:
		v.Text = "Not worth it as things are: what the simulation gains comes from merged pools, or from the order of the queue alone, which priorities can give as well."
	default:
		v.Text = "Not worth it."
	}
	return v
}

// structure are the properties that no figure outweighs.
func structure(h History, m Mix) []Reason {
	var out []Reason
	if m.Pools.Known && m.Pools.Separate && m.SLOGPUTime > 0 && m.SLOGPUTime < 1 {
		out = append(out, Reason{SeparatePools, false, "pools are separate: " + m.Pools.Text + "; nothing can be lent from one to the other, and within one pool plain Slurm's priorities do. It would pay if the pools were merged"})
	}
	fixedMulti, total := 0.0, 0.0
	for _, j := range h.Jobs {
		w := gpuTime(j)
		total += w
		if j.Fixed && j.GPUs > 1 && len(j.Counts) < 2 {
			fixedMulti += w
		}
	}
	if s := over(fixedMulti, total); s >= gangShare {
		out = append(out, Reason{FixedGangs, false, fmt.Sprintf("%.0f %% of the GPU time is in gangs of several GPUs that can neither be stopped nor resized: only the order of the queue is left to decide. It would pay if they saved checkpoints", 100*s)})
	}
	if gpus := h.Nodes * h.PerNode; gpus <= smallGPUs && m.InSystem <= fewAtOnce && m.Typical >= longJob*3600 {
		out = append(out, Reason{FewLong, false, fmt.Sprintf("%d GPUs, %.1f jobs at once on average, half of the GPU time in jobs of %.0f h and more: there is nearly nothing to choose between, and people can agree among themselves",
			gpus, m.InSystem, m.Typical/3600)})
	}
	return out
}

// figures compare ours with the better of the others, measure by measure.
func figures(c Compared) (gain bool, out []Reason) {
	if c.Ours == nil || c.Reserved == nil && c.Plain == nil {
		return false, []Reason{{NotSimulated, false, "nothing was simulated, so that no gain is shown"}}
	}
	rival, name := c.Plain, "plain backfill"
	if c.Reserved != nil && (rival == nil || Better(c.Reserved, rival)) {
		rival, name = c.Reserved, "EDF with a fixed reservation"
		if rival.Name == WholeEDF {
			name = "EDF on all nodes"
		}
	}
	misses, times := 0.0, 1.0
	hasSLO := c.Ours.WeightedMiss != nil && rival.WeightedMiss != nil
	hasBE := c.Ours.BEJCTMean != nil && rival.BEJCTMean != nil && *rival.BEJCTMean > 0
	if hasSLO {
		misses = *rival.WeightedMiss - *c.Ours.WeightedMiss
		out = append(out, Reason{Misses, misses >= missGain, fmt.Sprintf("deadline value missed: %.1f %%, with %s %.1f %%", 100**c.Ours.WeightedMiss, name, 100**rival.WeightedMiss)})
	}
	if hasBE {
		times = *c.Ours.BEJCTMean / *rival.BEJCTMean
		out = append(out, Reason{JobTimes, times <= timeGain, fmt.Sprintf("best-effort jobs take %.0f min on average, with %s %.0f min (%.2f times)", *c.Ours.BEJCTMean/60, name, *rival.BEJCTMean/60, times)})
	}
	if c.Ours.Unfinished > rival.Unfinished {
		return false, append(out, Reason{Unfinished, false, fmt.Sprintf("%d jobs never ended, with %s %d", c.Ours.Unfinished, name, rival.Unfinished)})
	}
	same := missSame
	if c.SLO > 0 {
		same = max(same, 1/float64(c.SLO))
	}
	same += 1e-9
	return misses >= max(missGain, same) && times <= timeNoWorse || misses >= -same && times <= timeGain, out
}

// Better reports whether a is what a site would rather have: fewer misses, then shorter job times.
func Better(a, b *sim.Figures) bool {
	am, bm := value(a.WeightedMiss), value(b.WeightedMiss)
	if am < bm-missSame || am > bm+missSame {
		return am < bm
	}
	return value(a.BEJCTMean) <= value(b.BEJCTMean)
}

func value(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}
