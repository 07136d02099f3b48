package trace

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"

	"unisched/planner"
	"unisched/slurm/comment"
)

var gpuTRES = regexp.MustCompile(`(?:^|,)gres/gpu=([0-9]{1,9})(?:,|$)`)

// readSacct reads `sacct --parsable2 --allocations --format=JobID,User,Account,Submit,Start,End,ElapsedRaw,State,ReqTRES,AllocTRES,Comment` (any order, more
// columns allowed). Steps, jobs that never ran and jobs without GPUs are left out; a comment of ours gives class and deadlines.
func readSacct(t *table, o Options) error {
	if err := t.need("JobID", "Submit"); err != nil {
		return err
	}
	if !t.has("ElapsedRaw") {
		if err := t.need("Elapsed"); err != nil {
			return err
		}
	}
	if !t.has("ReqTRES") {
		if err := t.need("AllocTRES"); err != nil {
			return err
		}
	}
	zone := o.Zone
	if zone == nil {
		zone = time.UTC
	}
	return t.each(func() error {
		j := Job{ID: t.get("JobID"), User: t.get("User"), Account: t.get("Account")}
		if strings.ContainsAny(j.ID, ".+") {
			t.skip("a step or part of a heterogeneous job: left out")
			return nil
		}
		submit, err := t.instant("Submit", "2006-01-02T15:04:05", zone)
		if err != nil {
			return err
		}
		j.Submit = submit
		if j.Duration, err = t.elapsed(); err != nil {
			return err
		}
		for _, col := range []string{"AllocTRES", "ReqTRES"} {
			if m := gpuTRES.FindStringSubmatch(t.get(col)); m != nil && j.GPUs == 0 {
				j.GPUs, _ = strconv.Atoi(m[1])
			}
		}
		t.wishes(&j, zone)
		t.add(j)
		return nil
	})
}

// elapsed reads ElapsedRaw (seconds), else Elapsed ([D-]HH:MM:SS).
func (t *table) elapsed() (time.Duration, error) {
	if t.has("ElapsedRaw") {
		return t.span("ElapsedRaw", time.Second)
	}
	v := t.get("Elapsed")
	days, rest, cut := strings.Cut(v, "-")
	if !cut {
		days, rest = "0", v
	}
	total, err := strconv.Atoi(days)
	total *= 24
	parts := strings.Split(rest, ":")
	if err != nil || len(parts) != 3 || total < 0 || total > 24*36500 {
		return 0, t.wrong("Elapsed", "%q is not [D-]HH:MM:SS", clip(v))
	}
	for i, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil || n < 0 || n > 1e6 {
			return 0, t.wrong("Elapsed", "%q is not [D-]HH:MM:SS", clip(v))
		}
		if i == 0 {
			total += n
		} else {
			total = total*60 + n
		}
	}
	return time.Duration(total) * time.Second, nil
}

// wishes takes class and deadlines from a comment of ours.
func (t *table) wishes(j *Job, zone *time.Location) {
	text := t.get("Comment")
	if text == "" || j.GPUs <= 0 {
		return
	}
	first := time.Unix(int64(j.Submit/time.Second), 0)
	w, err := comment.Parse(text, comment.Context{Now: first, First: first, Zone: zone, RequestGPUs: j.GPUs})
	switch {
	case errors.Is(err, comment.ErrNone):
		return
	case err != nil:
		t.skip("comment not understood: taken as best effort")
		return
	}
	j.Class = planner.Class(w.Class)
	for _, tier := range w.Tiers {
		j.Tiers = append(j.Tiers, Tier{tier.At.Sub(first), tier.Value})
	}
	if w.Elastic() {
		j.Counts = w.GPUs
	}
}
