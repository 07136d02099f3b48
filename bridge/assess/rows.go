package assess

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"unisched/bridge/sim/trace"
	"unisched/slurm/comment"
	"unisched/slurm/hostlist"
)

// Row is what sacct tells of a job beyond what a simulation uses.
type Row struct {
	ID, User, Name, Partition, State string
	// Nodes it ran on, as far as the columns NodeList or NNodes tell; Where are their names (nil: not told).
	Nodes   int
	Where   []string
	Elapsed time.Duration
	// Restarts says how often it was requeued (0 where the column is missing).
	Restarts int
	// Wish says that it has a comment for UniSched that can be read; Saves that this names a checkpoint, Rigid that it may never run on another GPU count.
	Wish, Saves, Rigid bool
}

// Bounds of what is read.
const (
	maxLine  = 64 << 10
	maxRows  = 5_000_000
	maxWhere = 1024
)

// ReadRows reads `sacct --parsable2` again for the columns that say how and where jobs ran (JobName, Partition, State, NodeList, NNodes, Restarts, Comment; any
// that are missing tell nothing). Steps and rows that the trace reader leaves out are of no use here either and are passed over.
func ReadRows(r io.Reader) (map[string]Row, error) {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 0, 4096), maxLine)
	if !in.Scan() {
		return nil, errors.Join(in.Err(), errors.New("sacct: an empty file"))
	}
	col := map[string]int{}
	columns := strings.Split(strings.TrimPrefix(strings.TrimRight(in.Text(), "\r"), "\ufeff"), "|")
	for i, name := range columns {
		if _, twice := col[name]; !twice {
			col[name] = i
		}
	}
	out := map[string]Row{}
	var keys trace.SacctKeys
	for in.Scan() {
		f := strings.Split(strings.TrimRight(in.Text(), "\r"), "|")
		for i := range f {
			f[i] = strings.TrimSpace(f[i])
		}
		f, ok := trace.SacctRow(col, len(columns), f)
		if !ok {
			continue
		}
		get := func(name string) string {
			if i, ok := col[name]; ok {
				return f[i]
			}
			return ""
		}
		id := get("JobID")
		if trace.SacctPart(id) {
			continue
		}
		if id = keys.Of(id, get("User")); id == "" {
			continue
		}
		if len(out) >= maxRows {
			return nil, fmt.Errorf("sacct: more than %d jobs", maxRows)
		}
		x := Row{ID: id, User: get("User"), Name: get("JobName"), Partition: get("Partition"), State: firstWord(get("State"))}
		x.Nodes, _ = strconv.Atoi(get("NNodes"))
		if names, err := hostlist.Expand(get("NodeList")); err == nil && len(names) > 0 && len(names) <= maxWhere && get("NodeList") != "None assigned" {
			x.Where, x.Nodes = names, len(names)
		}
		if s, err := strconv.ParseInt(get("ElapsedRaw"), 10, 40); err == nil && s > 0 {
			x.Elapsed = time.Duration(s) * time.Second
		}
		x.Restarts, _ = strconv.Atoi(get("Restarts"))
		if old, again := out[id]; again { // sacct --duplicates: one row a run
			x.Restarts = max(x.Restarts, old.Restarts+1)
		}
		x.wish(get("Comment"))
		out[id] = x
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("sacct: %w", err)
	}
	return out, nil
}

// wish reads what its user declares. Deadlines are the trace reader's matter.
func (x *Row) wish(text string) {
	if text == "" {
		return
	}
	now := time.Unix(0, 0)
	w, err := comment.Parse(text, comment.Context{Now: now, First: now, Zone: time.UTC, RequestGPUs: 1})
	if errors.Is(err, comment.ErrNone) {
		return
	}
	// What the parser dislikes is mostly a GPU count that the request does not have; the keys are there all the same.
	x.Wish = true
	if err == nil {
		x.Saves, x.Rigid = !w.Ckpt.None, w.Parallel == comment.FixedParallel
		return
	}
	x.Saves = strings.Contains(text, "ckpt=") && !strings.Contains(text, "ckpt=none")
	x.Rigid = strings.Contains(text, "parallel=fixed")
}

func firstWord(s string) string {
	word, _, _ := strings.Cut(s, " ")
	return word
}
