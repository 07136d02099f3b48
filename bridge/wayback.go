package bridge

import (
	"fmt"
	"slices"
	"strings"

	"unisched/slurm"
)

// A running job holds what Slurm might not give it again: whoever is stopped must be able to come back, and nobody else may be harmed by how he comes back.

// noWayBack says why Slurm would not start a running job again if it left its nodes now, "" when it would: it is then worth more where it is than in any plan.
// Nodes that others hold count as ways back, those that no job gets do not.
func (b *Bridge) noWayBack(rec *Record, job *slurm.Job) string {
	o := &rec.Original
	if slices.ContainsFunc(b.seen.Partitions, func(p slurm.Partition) bool { return p.Name == o.Partition && !p.Up }) {
		return fmt.Sprintf("partition %s starts no jobs now: it could not come back", o.Partition)
	}
	if why := b.usedUp(job); why != "" {
		return why
	}
	need, least := max(o.Nodes.Min, len(o.RequiredNodes), 1), o.GPUs
	if rec.Wish.Elastic() {
		need, least = 1, slices.Min(rec.Wish.GPUs)
	}
	rule, err := constraintOf(job.Constraint)
	nodes, gpus, shut := 0, 0, ""
	for i := range b.seen.Nodes {
		n := &b.seen.Nodes[i]
		if err == nil && !rule.met(n.Features) || !couldUse(rec, job, n) {
			continue
		}
		if why := b.shut(n, job); why != "" {
			if shut == "" || rec.Placement.On(n.Name) > 0 {
				shut = n.Name + " " + why
			}
			continue
		}
		nodes, gpus = nodes+1, gpus+n.TotalGPUs()
		if nodes >= need && gpus >= least { // asked of every running job at every look: what the other nodes do no longer matters
			return ""
		}
	}
	if shut == "" {
		return ""
	}
	return fmt.Sprintf("it could not come back: only %d GPUs on %d nodes are open to it (%s)", gpus, nodes, shut)
}

// couldUse reports whether a node is one of those that the job's request allows, in whatever state it is; its features are looked at elsewhere.
func couldUse(rec *Record, job *slurm.Job, n *slurm.Node) bool {
	o, q := &rec.Original, &job.Request
	switch {
	case !slices.Contains(n.Partitions, o.Partition), slices.Contains(q.ExcludedNodes, n.Name):
		return false
	case len(o.RequiredNodes) > 0 && !slices.Contains(o.RequiredNodes, n.Name):
		return false
	case q.GPUType != "" && !slices.ContainsFunc(n.GPUs, func(g slurm.GPUs) bool { return g.Type == q.GPUType || g.Type == "" }):
		return false
	}
	return rec.Wish.Elastic() || n.TotalGPUs() >= max(gresCount(o.TRESPerNode), 1)
}

// shut says why a node would not take a job now, whoever holds it: out of service, or reserved before the job must have ended.
func (b *Bridge) shut(n *slurm.Node, job *slurm.Job) string {
	if _, wakes := n.Power(); !n.Usable && !wakes {
		return "takes no new jobs"
	}
	for _, r := range b.seen.Reservations {
		if slices.Contains(r.Nodes, n.Name) && before(job, r, b.seen.At) {
			return "is reserved (" + r.Name + ")"
		}
	}
	return ""
}

// met reports whether a node's features are what the rule asks for.
func (r featureRule) met(features []string) bool {
	has := func(f string) bool { return slices.Contains(features, f) }
	return !slices.ContainsFunc(r.all, func(f string) bool { return !has(f) }) && (len(r.any) == 0 || slices.ContainsFunc(r.any, has))
}

// usedUp says that a limit was found which the end of no job lifts, such as the minutes of an account: whoever falls under it and leaves does not come back.
func (b *Bridge) usedUp(job *slurm.Job) string {
	if len(b.limits) == 0 {
		return ""
	}
	for _, key := range limitGroups(job) {
		if m, ok := b.limits[key]; ok && m.Job != job.ID && m.spent() {
			return fmt.Sprintf("Slurm starts no more jobs of %s (%s, as job %d shows): it could not come back", key, m.Reason, m.Job)
		}
	}
	return ""
}

// spent reports whether the limit is one on what has been used, or on who may run at all, and not one on what is held at once.
func (m limitMemo) spent() bool {
	return strings.Contains(m.Reason, "Minutes") || strings.Contains(m.Reason, "Wall") || strings.Contains(m.Reason, "MinsRun") || forbidsGroup(m.Reason)
}

// forbidsGroup reports whether a reason shuts out all jobs of a user in an account: the association is gone.
func forbidsGroup(reason string) bool { return strings.HasPrefix(reason, "InvalidAccount") }
