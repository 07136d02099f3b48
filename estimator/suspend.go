package estimator

import (
	"math"
	"slices"
	"time"

	"unisched/planner"
)

// ExpectedResumes is the expected number of resumes after the first start of a job that uses n of m lease slots, the n used ones being
// a uniformly random subset: n(m-n+1)/m maximal runs of consecutive slots, less the first (UniSched, section 4.3). It is 0 when n < 1 or n >= m.
func ExpectedResumes(n, m int) float64 {
	if n < 1 || m <= n {
		return 0
	}
	return float64(n)*float64(m-n+1)/float64(m) - 1
}

// cutPrior is the weight, in leases, of the paper's rule that a best-effort job is cut with probability 1/2 after each lease.
const cutPrior = 8

// cutRate is the probability that a best-effort job is preempted at the end of a lease.
func (f Fabric) cutRate() float64 {
	return (0.5*cutPrior + float64(max(f.BestEffortCuts, 0))) / (cutPrior + float64(max(f.BestEffortLeases, 0)))
}

// suspensions is the expected number of further resumes of a job.
func (f Fabric) suspensions(j Job, est planner.Estimate, now time.Time) float64 {
	if j.Lease <= 0 || len(est.Speeds) == 0 {
		return 0
	}
	ref, ok := est.SpeedOf(j.Requested)
	if !ok {
		ref = est.Speeds[0].Speed
	}
	if !(ref.Mid > 0) {
		return 0
	}
	leases := math.Ceil(est.Iterations.Mid / ref.Mid / j.Lease.Seconds())
	if leases = min(leases, 1e6); leases <= 1 {
		return 0
	}
	if !j.Class.SLO() || j.Deadline.IsZero() {
		return f.cutRate() * (leases - 1)
	}
	slots := math.Floor(j.Deadline.Sub(now).Seconds() / j.Lease.Seconds())
	return ExpectedResumes(int(leases), int(min(slots, 1e6)))
}

func (s SRSample) valid() bool {
	return s.GPUs > 0 && s.GPUs <= 1<<20 && s.Nodes > 0 && s.Nodes <= s.GPUs && s.Seconds >= 0 && s.Seconds < 1e6 && s.Bytes >= 0 && s.Bytes < 1e18
}

// resume is the time from a start to the first new iteration, in seconds.
func (f Fabric) resume(j Job) planner.Interval {
	if h := finiteOr(j.RestoreHint, 0); h > 0 && len(j.Resumes) == 0 {
		return planner.Interval{Low: 0.5 * h, Mid: h, High: 2 * h}
	}
	return costAt(j.Resumes, f.Resumes, j.Requested.GPUs(), planner.Interval{Low: 10, Mid: 40, High: 150})
}

// checkpoint is the time from the signal to freed GPUs, in seconds.
func (f Fabric) checkpoint(j Job) planner.Interval {
	return costAt(j.Checkpoints, f.Checkpoints, j.Requested.GPUs(), planner.Interval{Low: 1, Mid: 4, High: 30})
}

// costAt is the median of the job's own measurements, else of the cluster's, else the fallback.
func costAt(own, cluster []SRSample, gpus int, fallback planner.Interval) planner.Interval {
	for _, list := range [][]SRSample{own, cluster} {
		var v []float64
		for _, s := range list {
			if s.valid() {
				v = append(v, s.Seconds)
			}
		}
		if len(v) == 0 {
			continue
		}
		slices.Sort(v)
		mid := v[len(v)/2]
		spread := 2 / math.Sqrt(float64(len(v)))
		return planner.Interval{Low: min(v[0], mid/(1+spread)), Mid: mid, High: max(v[len(v)-1], mid*(1+spread))}
	}
	return fallback
}
