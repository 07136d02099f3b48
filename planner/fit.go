package planner

import (
	"fmt"
	"slices"
	"time"
)

// LeaseEpsilon is the share of a unit by which rounds may come early or late without changing what a lease means: a job
// whose lease ends within it is at its boundary, and a lease may be shorter by it than its nominal length.
const LeaseEpsilon = 0.05

func epsilon(unit time.Duration) time.Duration { return time.Duration(float64(unit) * LeaseEpsilon) }

// NextBoundary returns the next unit boundary after now (more than LeaseEpsilon away). Boundaries are the multiples of unit
// since the zero time, as time.Time.Truncate counts them, so that every part of the product agrees on them without state.
func NextBoundary(now time.Time, unit time.Duration) time.Time {
	return LeaseEnd(now, unit, 1).Add(-unitsOver(now, unit))
}

// unitsOver is one unit when now lies inside a unit (LeaseEnd then rounds up past the next boundary), else 0.
func unitsOver(now time.Time, unit time.Duration) time.Duration {
	if unit <= 0 {
		return 0
	}
	into := now.Sub(now.Truncate(unit))
	if into > epsilon(unit) && into < unit-epsilon(unit) {
		return unit
	}
	return 0
}

// LeaseEnd returns the end of a lease of so many units that is given now: the first unit boundary that is not earlier than
// now + units*unit - LeaseEpsilon*unit. A lease given between boundaries is therefore longer than nominal, never shorter.
func LeaseEnd(now time.Time, unit time.Duration, units int) time.Time {
	if unit <= 0 {
		return now
	}
	earliest := now.Add(time.Duration(max(1, units))*unit - epsilon(unit))
	end := earliest.Truncate(unit)
	if end.Before(earliest) {
		end = end.Add(unit)
	}
	return end
}

// MidLease reports whether j runs under a lease that has not ended at the time of the snapshot: it may only be kept.
func (s *Snapshot) MidLease(j *Job) bool {
	return j.State == Running && j.LeaseUntil.After(s.Now.Add(epsilon(s.Unit)))
}

// Pinned reports whether a running job may only be kept, and the reason code.
func (s *Snapshot) Pinned(j *Job) (string, bool) {
	switch {
	case j.State != Running:
		return "", false
	case j.Foreign || !j.Preemptible:
		return ReasonNoPreempt, true
	case s.MidLease(j):
		return ReasonMidLease, true
	case s.Spared(j):
		return ReasonSpared, true
	}
	return "", false
}

// FreeGPUs is what a node offers to the jobs of a snapshot: its GPUs less those of others, never below 0.
func (n Node) FreeGPUs() int { return max(0, n.GPUs-n.OtherGPUs) }

// Held reports whether others hold anything of the node, which rules out exclusive use.
func (n Node) Held() bool { return n.OtherGPUs > 0 || n.OtherCPUs > 0 || n.OtherMemMB > 0 }

// Allows says why a job with these needs may not use node n at all, whatever is free there; empty when it may. Usable is not
// considered: a job that runs on an unusable node may stay.
func (n Needs) Allows(node Node) string {
	switch {
	case n.GPUType != "" && n.GPUType != node.GPUType:
		return fmt.Sprintf("has GPUs of type %q, not %q", node.GPUType, n.GPUType)
	case n.Partition != "" && !slices.Contains(node.Partitions, n.Partition):
		return fmt.Sprintf("is not in partition %q", n.Partition)
	case n.Only != nil && !slices.Contains(n.Only, node.Name):
		return "is not among the nodes allowed"
	case slices.Contains(n.Exclude, node.Name):
		return "is excluded"
	}
	if node.ClosesIn > 0 && (n.Limit <= 0 || n.Limit > node.ClosesIn) {
		return fmt.Sprintf("is closed in %s (%s), within the job's time limit", node.ClosesIn.Round(time.Second), node.ClosedFor)
	}
	for _, f := range n.Features {
		if !slices.Contains(node.Features, f) {
			return fmt.Sprintf("lacks feature %q", f)
		}
	}
	if len(n.AnyFeature) > 0 && !slices.ContainsFunc(n.AnyFeature, func(f string) bool { return slices.Contains(node.Features, f) }) {
		return fmt.Sprintf("has none of the features %q", n.AnyFeature)
	}
	return ""
}

// LimitClass numbers the time limits that nodes tell apart: of two jobs that differ in their limits alone, those in one class may use the same nodes.
// It is 0 as long as no node is to be closed.
func LimitClass(nodes []Node, limit time.Duration) int {
	class := 0
	for i := range nodes {
		if n := &nodes[i]; n.ClosesIn > 0 && (limit <= 0 || limit > n.ClosesIn) {
			class++
		}
	}
	return class
}

// Valid reports whether a shape is one at all: at least one node, at least one GPU on each, largest first.
func (s Shape) Valid() bool {
	for i, g := range s {
		if g <= 0 || g > 1<<20 || i > 0 && g > s[i-1] {
			return false
		}
	}
	return len(s) > 0
}
