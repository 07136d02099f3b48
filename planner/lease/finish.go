package lease

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"time"

	"unisched/planner"
)

// schema is the version of plans made here.
const schema = 1

// plan turns a packed candidate into a plan.
func (in *instance) plan(r packed) planner.Plan {
	p := planner.Plan{Schema: schema, Now: in.s.Now, Unit: in.s.Unit, Candidate: r.name, Objective: r.obj,
		Entries: make([]planner.Entry, len(in.jobs))}
	crowd := in.crowd(r)
	for ji := range in.jobs {
		j := &in.jobs[ji]
		c := j.cols[r.choice[ji]]
		e := planner.Entry{Run: j.Run, Tier: c.tier}
		switch {
		case c.kind == keep:
			e.Decision, e.Placement = planner.Keep, j.Current
		case c.kind == start && j.State == planner.Running:
			e.Decision, e.Placement = planner.Move, r.places[ji]
		case c.kind == start:
			e.Decision, e.Placement = planner.Start, r.places[ji]
		case j.State == planner.Running:
			e.Decision = planner.Stop
		default:
			e.Decision = planner.Wait
		}
		if e.Decision != planner.Wait && e.Decision != planner.Stop {
			e.LeaseUntil = in.leaseUntil(j)
		}
		e.Reason = in.reason(j, r, ji, e.Decision, crowd)
		p.Entries[ji] = e
	}
	in.rank(&p)
	in.unroll(&p)
	p.ID = in.id(p)
	return p
}

// leaseUntil is the end of the lease that a job gets now, or of the one that still runs.
func (in *instance) leaseUntil(j *job) time.Time {
	if in.s.MidLease(j.Job) {
		return j.LeaseUntil
	}
	units := 1
	if j.Class.SLO() {
		units = in.lead
	}
	if save := planner.Seconds(j.Estimate.Checkpoint.Mid); j.TimeLeft > 0 { // the run must save before its own time limit ends it
		units = max(1, min(units, int((j.TimeLeft-save)/in.s.Unit)))
	}
	return planner.LeaseEnd(in.s.Now, in.s.Unit, units)
}

// rank numbers the entries: starts first, the most urgent and best paid ahead, then waiting jobs, then the others.
func (in *instance) rank(p *planner.Plan) {
	group := func(d planner.Decision) float64 {
		switch d {
		case planner.Start, planner.Move:
			return 0
		case planner.Wait:
			return 1
		}
		return 2
	}
	urgent := func(j *job) float64 {
		if j.alive || !math.IsInf(j.laxity(), 1) {
			return min(j.laxity(), maxUnits)
		}
		return maxUnits + 1/(1e-9+j.density())
	}
	for rank, ji := range in.orderFrom(in.byClaim(), func(ji int) [2]float64 { return [2]float64{group(p.Entries[ji].Decision), urgent(&in.jobs[ji])} }) {
		p.Entries[ji].Rank = rank
	}
}

// crowd holds per pool what the reasons of waiting jobs need.
type crowd struct {
	free, pinned []int
	stops        int
}

func (in *instance) crowd(r packed) crowd {
	c := crowd{free: make([]int, len(in.pools)), pinned: make([]int, len(in.pools))}
	held := make([]int, len(in.nodes)) // by jobs that may only be kept
	for ji := range in.jobs {
		j := &in.jobs[ji]
		if j.pinned != "" {
			for _, sh := range j.Current {
				if i, ok := in.index[sh.Node]; ok {
					held[i] += sh.GPUs
				}
			}
		}
		if j.State == planner.Running && j.cols[r.choice[ji]].kind != keep {
			c.stops++
		}
	}
	for p := range in.pools {
		for _, n := range in.pools[p].nodes {
			c.free[p] += max(0, r.floor.gpus[n])
			c.pinned[p] += held[n]
		}
	}
	return c
}

func (in *instance) reason(j *job, r packed, ji int, d planner.Decision, c crowd) planner.Reason {
	switch d {
	case planner.Keep:
		switch j.pinned {
		case planner.ReasonMidLease:
			return planner.Reason{Code: j.pinned, Text: "its lease runs until " + j.LeaseUntil.Format(time.TimeOnly)}
		case planner.ReasonSpared:
			return planner.Reason{Code: j.pinned, Text: fmt.Sprintf("was preempted %d times within the hour, a job may be %d times", j.Preempted, in.s.JobHourlyPreemptions)}
		case planner.ReasonNoPreempt:
			if j.Blocked != "" {
				return planner.Reason{Code: j.pinned, Text: "could not come back: " + j.Blocked}
			}
			return planner.Reason{Code: j.pinned, Text: "cannot be preempted"}
		}
		return planner.Reason{Code: planner.ReasonRuns, Text: "keeps its place for another lease"}
	case planner.Start:
		if j.Foreign {
			return planner.Reason{Code: planner.ReasonLetThrough, Text: fmt.Sprintf("%d GPUs are left free for it", r.places[ji].GPUs())}
		}
		return planner.Reason{Code: planner.ReasonStarts, Text: fmt.Sprintf("gets %s", r.places[ji]) + in.wakeWhy(r.places[ji])}
	case planner.Move:
		return planner.Reason{Code: planner.ReasonStarts, Text: in.movedWhy(j, r, r.places[ji])}
	case planner.Stop:
		return planner.Reason{Code: planner.ReasonPreempted, Text: "makes room for jobs that are worth more now"}
	}
	if by, ok := r.raced[ji]; ok {
		return planner.Reason{Code: planner.ReasonOutbid, Text: fmt.Sprintf("job %s, which is not managed, takes GPUs it counted on before a victim would be gone", by)}
	}
	return in.whyWaits(j, r, c, r.homeless[ji])
}

// whyWaits explains a waiting job.
func (in *instance) whyWaits(j *job, r packed, c crowd, homeless bool) planner.Reason {
	if j.idle != "" {
		return planner.Reason{Code: j.idle, Text: j.idleWhy}
	}
	least, free, pinned, total := math.MaxInt, 0, 0, 0
	for _, o := range j.opts {
		least = min(least, o.gpus)
		if c.free[o.pool] >= free {
			free = c.free[o.pool]
		}
		if room := in.pools[o.pool].gpus - c.pinned[o.pool]; room >= total-pinned {
			total, pinned = in.pools[o.pool].gpus, c.pinned[o.pool]
		}
	}
	if why, ok := in.quotaWhy(j, r, least); ok {
		return why
	}
	switch {
	case total-pinned < least:
		return planner.Reason{Code: planner.ReasonFull,
			Text: fmt.Sprintf("%d of the %d GPUs it could use are held by jobs that may not be stopped now", pinned, total)}
	case free >= least || homeless:
		return planner.Reason{Code: planner.ReasonNoHole, Text: fmt.Sprintf("%d GPUs are free, but not where and how it can use them", free)}
	case in.bounded && c.stops >= in.stopCap:
		return planner.Reason{Code: planner.ReasonBudget, Text: in.budgetWhy()}
	case j.Class.SLO() && !j.Foreign && !j.alive:
		return planner.Reason{Code: planner.ReasonLate, Text: "no deadline of it can be met any more, others go first"}
	}
	return planner.Reason{Code: planner.ReasonOutbid, Text: "jobs that earn more now hold the GPUs"}
}

// budgetWhy says which budget of preemptions is used up.
func (in *instance) budgetWhy() string {
	if in.stopCap == in.s.MaxPreemptions {
		return fmt.Sprintf("no more than %d jobs may be stopped in this round", in.stopCap)
	}
	return fmt.Sprintf("%d jobs were stopped within the last hour, the site allows %d", in.s.Preempted, in.s.HourlyPreemptions)
}

// id names a plan by what it was made from and what it says.
func (in *instance) id(p planner.Plan) string {
	h := &digest{b: make([]byte, 0, 64+64*len(in.nodes)+192*len(in.jobs))}
	h.number(in.s.Now.UnixNano(), int64(in.s.Unit), int64(in.s.SLOUnits), int64(in.s.MaxPreemptions))
	if in.bounded && in.stopCap != in.s.MaxPreemptions {
		h.number(int64(in.stopCap))
	}
	for _, q := range in.quotas {
		h.text(q.Account)
		h.number(int64(q.Room))
	}
	for i := range in.s.Nodes {
		h.text(in.s.Nodes[i].Name)
		h.number(int64(in.nodes[i].gpus), int64(in.nodes[i].cpus), in.nodes[i].mem)
	}
	for ji := range in.jobs {
		j, e := &in.jobs[ji], &p.Entries[ji]
		h.number(int64(j.Run.Job), int64(j.Run.Restart), int64(math.Float64bits(j.n)), int64(math.Float64bits(j.ov)), e.LeaseUntil.UnixNano(),
			int64(e.Rank), int64(e.Tier))
		h.joined(string(j.Class), string(j.State), string(e.Decision), j.Current, e.Placement)
	}
	sum := sha256.Sum256(h.b)
	return hex.EncodeToString(sum[:8])
}

// digest is what an id is the hash of.
type digest struct{ b []byte }

func (h *digest) number(vs ...int64) {
	for _, v := range vs {
		h.b = binary.LittleEndian.AppendUint64(h.b, uint64(v))
	}
}

func (h *digest) text(s string) {
	h.number(int64(len(s)))
	h.b = append(h.b, s...)
}

// joined is the text of words and placements with strokes in between.
func (h *digest) joined(class, state, decision string, current, next planner.Placement) {
	h.number(0)
	from := len(h.b)
	h.b = append(append(append(append(append(h.b, class...), '/'), state...), '/'), decision...)
	h.b = next.Append(append(current.Append(append(h.b, '/')), '/'))
	binary.LittleEndian.PutUint64(h.b[from-8:], uint64(len(h.b)-from))
}
