package trace

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"unisched/planner"
)

// Workloads are the mixes of the UniSched paper (section 6): all strict; 70 % strict and 30 % best effort; 30 % strict, 60 % soft and 10 % best effort.
func Workloads() []string { return []string{"asis", "strict", "mix1", "mix2"} }

// metricShare is the share of generated jobs that stop on a metric.
const metricShare = 0.2

// softTiers are the deadlines of a generated soft job as multiples of the first, with their values.
var softTiers = []Tier{{100, 100}, {110, 80}, {120, 50}, {150, 20}}

// mix is a source of randomness of its own for every (seed, purpose, job): what is drawn for one job depends on no other.
func mix(seed uint64, parts ...string) *rand.Rand {
	h := fnv.New64a()
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0})
	}
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// Workload gives classes, deadlines and stopping criteria to the jobs: deadline U[1.1, 2.0] x duration, at least the duration and two units; a fifth
// stop on a metric, with a maximum of 1.2 to 2 times the true iterations. "asis" changes nothing.
func (t Trace) Workload(kind string, seed uint64, unit time.Duration) (Trace, error) {
	share, ok := map[string][2]float64{"strict": {1, 0}, "mix1": {0.7, 0}, "mix2": {0.3, 0.6}}[kind]
	switch {
	case kind == "asis" || kind == "":
		return t, nil
	case !ok:
		return t, fmt.Errorf("workload %q is none of %v", kind, Workloads())
	}
	t.Jobs = slices.Clone(t.Jobs)
	for i := range t.Jobs {
		j := &t.Jobs[i]
		rng := mix(seed, "workload", j.ID)
		class, slack, stop := rng.Float64(), 1.1+0.9*rng.Float64(), rng.Float64()
		over, family, curve := 1.2+0.8*rng.Float64(), rng.IntN(len(Families())), rng.Uint64()
		j.Class, j.Tiers, j.Metric = planner.BestEffort, nil, nil
		due := max(time.Duration(float64(j.Duration)*slack), j.Duration+2*unit).Round(time.Second)
		switch {
		case class < share[0]:
			j.Class, j.Tiers = planner.Strict, []Tier{{due, 100}}
		case class < share[0]+share[1]:
			j.Class = planner.Soft
			for _, s := range softTiers {
				j.Tiers = append(j.Tiers, Tier{(due / 100 * s.After).Round(time.Second), s.Value})
			}
		}
		if stop < metricShare {
			j.Metric = &Metric{Family: Families()[family], Seed: curve, Max: int64(math.Ceil(float64(j.Iterations) * over))}
		}
	}
	return t, nil
}

// heliosGPUs are the shares of GPU counts in Helios (SC'21, figure 6, condensed).
var heliosGPUs = []struct {
	gpus  int
	share float64
}{{1, 0.50}, {2, 0.14}, {4, 0.12}, {8, 0.17}, {16, 0.04}, {32, 0.02}, {64, 0.01}}

// makeHelios makes synthetic jobs from the published marginals of one Helios cluster: run times lognormal with its median and mean (clipped to
// 1 min .. 7 days), GPU counts as published, arrivals Poisson with a daily wave, as many as load the cluster to Load. It is no trace of anything.
func makeHelios(t *table, o Options) error {
	if err := t.need("id", "gpu_num", "avg_run_time_gpu", "med_run_time_gpu"); err != nil {
		return err
	}
	found := false
	err := t.each(func() error {
		if found || o.Cluster != "" && t.get("id") != o.Cluster {
			return nil
		}
		found = true
		mean, err := t.number("avg_run_time_gpu")
		if err != nil {
			return err
		}
		median, err := t.number("med_run_time_gpu")
		if err != nil {
			return err
		}
		gpus := o.GPUs
		if gpus == 0 {
			n, err := t.count("gpu_num", maxGPUs)
			if err != nil {
				return err
			}
			gpus = int(n)
		}
		if !(median >= 1) || !(mean > median) || mean > 1e7 || gpus < 1 {
			return t.wrong("avg_run_time_gpu", "mean %v, median %v, %d GPUs: no such distribution", mean, median, gpus)
		}
		t.synthesize(o, t.get("id"), mean, median, gpus)
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("no cluster %q: %w", clip(o.Cluster), ErrFormat)
	}
	return err
}

func (t *table) synthesize(o Options, name string, mean, median float64, gpus int) {
	load, days := cmp.Or(o.Load, 1), cmp.Or(o.Days, 14)
	end := days * 86400
	sigma := math.Sqrt(2 * math.Log(mean/median))
	rng := mix(o.Seed, "helios-like", name)
	want, sum := load*end*float64(gpus), 0.0
	for i := 0; sum < want && i < 1_000_000; i++ {
		j := Job{ID: "h" + strconv.Itoa(i+1), User: "u" + strconv.Itoa(rng.IntN(40)), Account: "vc" + strconv.Itoa(rng.IntN(8))}
		for draw := rng.Float64(); ; { // redrawn below when the job is too wide for the cluster
			for _, g := range heliosGPUs {
				if j.GPUs = g.gpus; draw < g.share {
					break
				}
				draw -= g.share
			}
			if j.GPUs <= gpus {
				break
			}
			draw = rng.Float64()
		}
		d := min(max(median*math.Exp(sigma*rng.NormFloat64()), 60), 7*86400)
		j.Duration = time.Duration(d) * time.Second
		for { // a daily wave: half as many at night
			at := rng.Float64() * end
			if rng.Float64() < 0.75-0.25*math.Cos(2*math.Pi*at/86400) {
				j.Submit = time.Duration(at) * time.Second
				break
			}
		}
		sum += d * float64(j.GPUs)
		t.add(j)
	}
	t.skip("synthetic: made from published marginals of " + clip(name))
}
