package bridge

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"unisched/slurm"
)

// A job that waits with a begin time in the future is nobody to Slurm: when a job ends by itself, a plain job takes its GPUs in the same second, and no plan is asked. Where
// managed and plain jobs share nodes the managed ones would wait for as long as plain ones come. So a waiting job that was submitted before a plain one that Slurm could start
// is armed: it may start at once, ahead of that one by nice, and not ahead of those that were there before it. What it takes then, the plain job would have taken. Delays and requeues reset a job's age
// in Slurm; the nice makes that good.

// maxArmed bounds the armed jobs of one partition: enough for what comes free at once, few enough to leave the rest to the plan.
const maxArmed = 4

// plainJob is a plain job that waits and that Slurm could start.
type plainJob struct {
	submit    time.Time
	partition string
	qos       string
	priority  int64
}

// plainJobs are those.
func (b *Bridge) plainJobs() []plainJob {
	var out []plainJob
	for i := range b.seen.Jobs {
		job := &b.seen.Jobs[i]
		if rec := b.records[job.ID]; (rec == nil || !rec.Phase.Ours() || !b.acts(rec)) && b.competes(job) {
			out = append(out, plainJob{job.Submit, job.Partition, job.QOS, job.Priority})
		}
	}
	return out
}

// armed is a job to be armed with the priority that puts it ahead of the plain jobs that came later, and not ahead of those that came before it.
type armed struct {
	rec  *Record
	want int64
}

// ahead is the highest priority of the plain jobs of the job's own partition and QOS that came after it, 0 when there are none. What other QOS are worth to the site only
// Slurm knows: those keep their order.
func (r *Record) ahead(plain []plainJob) int64 {
	top := int64(0)
	for _, p := range plain {
		if p.partition == r.Original.Partition && p.qos == r.QOS && r.FirstSubmit.Before(p.submit) {
			top = max(top, p.priority)
		}
	}
	return top
}

// arm finds the waiting jobs that are to be armed, in the plan's order, and takes the arms of the others.
func (c *cycle) arm(waiting []*Record) []armed {
	b := c.b
	if b.cfg.PriorityMode != "nice" || b.suspect != "" || len(waiting) == 0 {
		return nil
	}
	var out []armed
	if plain := b.plainJobs(); len(plain) > 0 {
		for _, rec := range waiting {
			job, ok := c.job(rec)
			if !ok || rec.Phase != Waiting || rec.Blocked != "" || job.Held {
				continue
			}
			if top := rec.ahead(plain); top > 0 {
				out = append(out, armed{rec, top})
			}
		}
	}
	slices.SortFunc(out, func(x, y armed) int {
		a, z := x.rec.Target.StartBy, y.rec.Target.StartBy
		return cmp.Or(cmp.Compare(btoi(a.IsZero()), btoi(z.IsZero())), a.Compare(z), x.rec.FirstSubmit.Compare(y.rec.FirstSubmit), cmp.Compare(x.rec.Job, y.rec.Job))
	})
	n := map[string]int{}
	out = slices.DeleteFunc(out, func(a armed) bool { n[a.rec.Original.Partition]++; return n[a.rec.Original.Partition] > maxArmed })
	for i := range out {
		out[i].want += int64(len(out) - i) // among themselves in the plan's order
	}
	for _, rec := range waiting {
		if rec.Armed && !slices.ContainsFunc(out, func(a armed) bool { return a.rec == rec }) {
			rec.Armed, rec.dirty = false, true // its nice goes in the next cycle, its delay is renewed in this one
		}
	}
	return out
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// arms lets the armed jobs go, and those anew whose priority is not what it should be: ages grow, and that of a job that was delayed began anew.
func (c *cycle) arms(ctx context.Context, list []armed) error {
	for _, a := range list {
		job, _ := c.job(a.rec)
		nice := max(min(a.rec.Base-a.want, 0), -(1<<31 - 5))
		off := job.Priority - a.want
		if a.rec.Armed && !job.Begin.After(c.now) && (off >= 0 && off <= armedSlack || nice == a.rec.Changed.NiceIs) {
			continue
		}
		if err := c.apply(ctx, a.rec, Arm{target(a.rec.ID()), nice}); err != nil {
			return err
		}
	}
	return nil
}

// armedSlack is by how much the priority of an armed job may be above what it should be before it is written anew.
const armedSlack = 5

// competes reports whether Slurm could start a waiting job as soon as its turn comes.
func (b *Bridge) competes(job *slurm.Job) bool {
	if job.State != slurm.StatePending || job.Held || job.Dependency != "" || job.Request.GPUs <= 0 ||
		job.Request.OtherGRES || job.Begin.After(b.seen.At) || job.IsHet() || len(job.Odd) > 0 || job.Reservation != "" {
		return false
	}
	return slices.ContainsFunc(waitReasons, func(r string) bool { return job.Reason == r || r != "" && strings.HasPrefix(job.Reason, r) })
}
