package bridge

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"unisched/estimator"
	"unisched/slurm"
	"unisched/slurm/comment"
)

// Others may wait for the end of a job (--dependency). One that leaves as agreed ends nothing: Slurm puts it back, and they go on waiting. One that ends instead, killed by the
// signal or with another code, is put back by us; but at that moment Slurm has already started those that wait for its end (afterany), and never starts those that wait for
// its success (afterok): both seen. Whoever declares ckpt= has promised that his job comes back, so what he and his account let wait for it does not spare it: it would else be a way to
// be never preempted. Other people have promised nothing, and what of theirs waits spares it until it, or a job of its script, has come back once; within bounds, for they
// may be friends.

// dependency is one word of what Slurm shows of --dependency: the kind, the job, and the task of an array or * for all of them.
var dependency = regexp.MustCompile(`(after[a-z]*):([0-9]{1,10})(?:_([0-9]{1,7}|\*))?(?:[^0-9_]|$)`)

// awaitedTask is a job whose end others wait for; task -1 stands for all tasks of an array. Whoever waits only for its start (after:) is not harmed by its return.
type awaitedTask struct {
	id   slurm.JobID
	task int
}

// waiter is one who waits.
type waiter struct {
	job     slurm.JobID
	uid     int64
	account string
}

// The bounds of what one look keeps of everybody's dependencies: jobs that are waited for, and of each the first job of so many users and accounts.
const (
	maxAwaited = 1 << 16
	maxWaiters = 8
)

// awaited finds them in what jobs wait for.
func awaited(jobs []slurm.Job) map[awaitedTask][]waiter {
	var out map[awaitedTask][]waiter
	for i := range jobs {
		job := &jobs[i]
		if job.Dependency == "" || job.State != slurm.StatePending {
			continue
		}
		for _, m := range dependency.FindAllStringSubmatch(job.Dependency, 64) {
			id, err := strconv.ParseInt(m[2], 10, 64)
			if m[1] == "after" || err != nil {
				continue
			}
			t := awaitedTask{slurm.JobID(id), -1}
			if m[3] != "" && m[3] != "*" {
				t.task, _ = strconv.Atoi(m[3]) // seven digits
			}
			known := slices.ContainsFunc(out[t], func(w waiter) bool { return w.uid == job.UID && w.account == job.Account })
			if known || len(out[t]) >= maxWaiters || len(out[t]) == 0 && len(out) >= maxAwaited {
				continue
			}
			if out == nil {
				out = map[awaitedTask][]waiter{}
			}
			out[t] = append(out[t], waiter{job.ID, job.UID, job.Account})
		}
	}
	return out
}

// waiters are those who wait for the end of a job, as far as they are kept.
func (b *Bridge) waiters(rec *Record) []waiter {
	if len(b.awaits) == 0 {
		return nil
	}
	out := b.awaits[awaitedTask{rec.Job, -1}]
	if rec.Array != 0 {
		out = slices.Concat(out, b.awaits[awaitedTask{rec.Array, rec.Task}], b.awaits[awaitedTask{rec.Array, -1}])
	}
	return out
}

// owns reports whether a waiter is of the job's own user or account.
func (r *Record) owns(w waiter) bool {
	return w.uid == r.UID || w.account != "" && w.account == r.Account
}

// proof is a kind of jobs of which one has come back as agreed.
type proof struct {
	key  estimator.Key
	ckpt comment.Ckpt
}

// proofs are those of all jobs that are known or remembered.
func (b *Bridge) proofs() map[proof]bool {
	out := map[proof]bool{}
	for _, list := range [][]*Record{b.known(), b.past} {
		for _, r := range list {
			if r.Returned && r.Key.Script != "" {
				out[proof{r.Key, r.Wish.Ckpt}] = true
			}
		}
	}
	return out
}

// proven reports whether the job, or an earlier one of the same script, has come back as agreed.
func (r *Record) proven(proofs map[proof]bool) bool {
	return r.Returned || proofs[proof{r.Key, r.Wish.Ckpt}]
}

// sparedShare is the part of a partition's GPUs that may be spared for what others let wait: one in so many, and one job in any case.
const sparedShare = 10

// spare finds the running jobs that are not stopped because other people wait for their end: one of each user, the oldest first, as far as their share goes. Each that
// somebody waits for is told once what it has promised.
func (b *Bridge) spare(now time.Time) {
	b.spared = nil
	if len(b.awaits) == 0 {
		return
	}
	var list []*Record
	var proofs map[proof]bool
	for _, rec := range b.known() {
		waiters := b.waiters(rec)
		if len(waiters) == 0 || !rec.Phase.Ours() || rec.Wish.Ckpt.None {
			continue
		}
		if proofs == nil {
			proofs = b.proofs()
		}
		if rec.proven(proofs) {
			continue
		}
		if !slices.ContainsFunc(rec.Events, func(e Event) bool { return e.What == "awaited" }) {
			rec.note(now, "awaited", fmt.Sprintf("job %d waits for its end (--dependency): if this one ends when it is asked to leave, and does not save and exit %d as its ckpt= promises, Slurm starts that one early or gives it up; "+
				"try it with unisched lint --file, or write ckpt=none", waiters[0].job, b.cfg.RequeueExit))
		}
		if rec.Phase == Running && slices.ContainsFunc(waiters, func(w waiter) bool { return !rec.owns(w) }) {
			list = append(list, rec)
		}
	}
	slices.SortFunc(list, func(x, y *Record) int {
		return cmp.Or(x.FirstSubmit.Compare(y.FirstSubmit), cmp.Compare(x.Job, y.Job))
	})
	users, used := map[int64]bool{}, map[string]int{}
	for _, rec := range list {
		p, gpus := rec.Original.Partition, rec.Placement.GPUs()
		if users[rec.UID] || used[p] > 0 && sparedShare*(used[p]+gpus) > b.partitionGPUs(p) {
			continue
		}
		users[rec.UID] = true
		used[p] += gpus
		waiters := b.waiters(rec)
		if b.spared == nil {
			b.spared = map[slurm.JobID]slurm.JobID{}
		}
		b.spared[rec.Job] = waiters[slices.IndexFunc(waiters, func(w waiter) bool { return !rec.owns(w) })].job
	}
}

// partitionGPUs are all GPUs of a partition's nodes.
func (b *Bridge) partitionGPUs(name string) (n int) {
	for i := range b.seen.Nodes {
		if node := &b.seen.Nodes[i]; slices.Contains(node.Partitions, name) {
			n += node.TotalGPUs()
		}
	}
	return n
}

// risksOthers says that a job which other people wait for has not shown that it leaves as agreed.
func (b *Bridge) risksOthers(rec *Record) string {
	by := b.spared[rec.Job]
	if by == 0 {
		return ""
	}
	return fmt.Sprintf("job %d of somebody else waits for its end (--dependency), and no job of its kind has shown yet that it comes back after a signal", by)
}

// profileRisks says that somebody, its user or another, waits for the end of a job that is to be measured on fewer GPUs than it asked for: its failure there would be our doing.
func (b *Bridge) profileRisks(rec *Record) string {
	waiters := b.waiters(rec)
	if len(waiters) == 0 || rec.proven(b.proofs()) {
		return ""
	}
	return fmt.Sprintf("job %d waits for its end (--dependency)", waiters[0].job)
}

// unprofile spares a job that others wait for the profile: one that fails on fewer GPUs than it asked for would be the end of their wait.
func (b *Bridge) unprofile(rec *Record) {
	if !rec.Profile.Needed() || rec.Phase != Admitted {
		return
	}
	waiters := b.waiters(rec)
	if len(waiters) == 0 {
		return
	}
	rec.Profile = Profile{Done: true, Note: fmt.Sprintf("job %d waits for its end: measured in its first lease", waiters[0].job)}
	rec.note(b.seen.At, "profile-skipped", rec.Profile.Note)
	rec.enter(b.seen.At, Waiting, "")
}
