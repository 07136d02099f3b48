package trace

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"unisched/planner"
	"unisched/slurm/comment"
	"unisched/slurm/gres"
)

const sacctTime = "2006-01-02T15:04:05"

// readSacct reads `sacct --parsable2 --allocations --format=JobID,User,Account,Submit,Start,End,ElapsedRaw,State,ReqTRES,AllocTRES,Comment` (any order, more
// columns allowed). Steps, jobs that never ran and jobs without GPUs are left out; a comment of ours gives class and deadlines. Rows come from years of a
// cluster's life: one that cannot be read is left out and counted, and costs no other. The rows of one job that was requeued are one job.
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
	var keys SacctKeys
	at := map[string]int{}
	return t.each(func() error {
		if fields, ok := SacctRow(t.head, t.width, t.fields); ok {
			t.fields = fields
		} else {
			t.skip("a row of another number of columns, as a | in a name makes it: left out")
			return nil
		}
		j := Job{User: t.get("User"), Account: t.get("Account")}
		id := t.get("JobID")
		if SacctPart(id) {
			t.skip("a step or part of a heterogeneous job: left out")
			return nil
		}
		j.ID = keys.Of(id, j.User)
		var err error
		if j.Submit, err = t.instant("Submit", sacctTime, zone); err == nil {
			j.Duration, err = t.elapsed()
		}
		if err != nil {
			t.skip("a time that cannot be read: left out")
			return nil
		}
		if !t.gpus(&j) {
			return nil
		}
		t.wishes(&j, zone)
		if i, again := at[j.ID]; again && j.Duration > 0 {
			t.jobs[i].rejoin(j)
		} else if n := len(t.jobs); !again {
			if t.add(j); len(t.jobs) > n {
				at[j.ID] = n
			}
		}
		return nil
	})
}

// gpus reads what was allocated, else what was asked for. Slices of GPUs are no GPUs. False: the row is left out.
func (t *table) gpus(j *Job) bool {
	for _, col := range []string{"AllocTRES", "ReqTRES"} {
		tres, err := gres.ParseTRES(t.get(col))
		switch {
		case err != nil:
			t.skip("resources that cannot be read: left out")
			return false
		case tres.Shared:
			t.skip("shards, MPS or MIG slices: left out")
			return false
		case tres.GPUs > 0 && j.GPUs == 0:
			j.GPUs = int(min(tres.GPUs, maxGPUs+1))
		}
	}
	return true
}

// rejoin adds a later run of the same job.
func (j *Job) rejoin(run Job) {
	refine(&run)
	j.Submit = min(j.Submit, run.Submit)
	j.Duration = min(j.Duration+run.Duration, maxDuration)
	j.Iterations += run.Iterations
}

// SacctPart says that an id is a step's or belongs to a heterogeneous job.
func SacctPart(id string) bool { return strings.ContainsAny(id, ".+") }

// SacctKeys tells jobs of one number apart: rows of the same user are runs of one job (it was requeued), another user's is a job to which Slurm gave a number
// that it had given before. Rows must come in the file's order.
type SacctKeys struct{ users map[string][]string }

// Of is the key of a row: the id for the first user who has it.
func (k *SacctKeys) Of(id, user string) string {
	if k.users == nil {
		k.users = map[string][]string{}
	}
	n := slices.Index(k.users[id], user)
	if n < 0 {
		n = len(k.users[id])
		k.users[id] = append(k.users[id], user)
	}
	if n == 0 {
		return id
	}
	return id + "#" + strconv.Itoa(n+1)
}

// freeText are the columns in which people may write a |, sacct's separator, which it does not escape.
var freeText = []string{"JobName", "Comment", "AdminComment", "SystemComment", "Constraints", "SubmitLine", "WorkDir"}

// SacctRow mends a row that has more fields than the header has columns: they belong to the one free text whose joining puts the other columns right. False when
// there is not exactly one such, or when the row is cut.
func SacctRow(head map[string]int, width int, fields []string) ([]string, bool) {
	extra := len(fields) - width
	if extra <= 0 {
		return fields, extra == 0
	}
	var found []string
	for _, name := range freeText {
		i, ok := head[name]
		if !ok {
			continue
		}
		joined := slices.Concat(fields[:i], []string{strings.Join(fields[i:i+extra+1], "|")}, fields[i+extra+1:])
		if !shaped(head, joined) {
			continue
		}
		if found != nil {
			return nil, false
		}
		found = joined
	}
	return found, found != nil
}

// shaped says that the columns whose form is known have it.
func shaped(head map[string]int, fields []string) bool {
	for name, form := range map[string]func(string) bool{"Submit": isInstant, "Start": isInstant, "End": isInstant, "ElapsedRaw": isDigits, "NNodes": isDigits, "Restarts": isDigits, "State": isState} {
		if i, ok := head[name]; ok && !form(fields[i]) {
			return false
		}
	}
	return true
}

func isInstant(s string) bool {
	if s == "" || s == "Unknown" || s == "None" {
		return true
	}
	_, err := time.Parse(sacctTime, s)
	return err == nil
}

func isDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }

func isState(s string) bool {
	word, _, _ := strings.Cut(s, " ")
	return word != "" && strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_+") == ""
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
