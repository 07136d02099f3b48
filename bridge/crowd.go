package bridge

import (
	"fmt"
	"time"
)

// crowd counts the best-effort jobs of ours that wait for GPUs, by partition.
func (b *Bridge) crowd() map[string]int {
	out := map[string]int{}
	for _, rec := range b.known() {
		if rec.Phase.Ours() && !rec.Phase.OnGPUs() && !rec.slo() {
			out[rec.Original.Partition]++
		}
	}
	return out
}

// tooDear says why best-effort jobs would wait too long for a job with deadlines, "" when they would not. It goes before them: where W of them wait for G GPUs, a job
// of H GPU-hours makes each wait H/G hours longer, and all together W H/G.
func (b *Bridge) tooDear(rec *Record) string {
	most := b.cfg.Admission.WaitHours
	waiting := b.crowded[rec.Original.Partition]
	if most <= 0 || waiting == 0 {
		return ""
	}
	gpus := b.partitionGPUs(rec.Original.Partition)
	if gpus == 0 {
		return ""
	}
	hours, ran := rec.declared()
	wait := hours * float64(waiting) / float64(gpus)
	if wait <= most {
		return ""
	}
	return fmt.Sprintf("it asks for %.1f GPU-hours (%d GPUs for %s): the %d best-effort jobs that wait for the %d GPUs of partition %s would wait %.1f hours longer for it, all together, and %.1f are allowed here",
		hours, rec.Original.GPUs, Span(ran), waiting, gpus, rec.Original.Partition, wait, most)
}

// judgeSize demotes a job that asks for more than one job with deadlines may, or that would make others wait too long, and reports whether it did.
func (b *Bridge) judgeSize(now time.Time, rec *Record) bool {
	if why := b.cfg.Admission.tooLarge(rec); why != "" {
		b.demote(now, rec, TooLarge, why)
	} else if why := b.tooDear(rec); why != "" {
		b.demote(now, rec, TooDear, why)
	}
	return rec.Demoted.Kind != ""
}
