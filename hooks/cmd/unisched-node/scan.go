package main

import (
	"os"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"unisched/hooks/progress"
)

// Bounds on the tree, so that neither many jobs nor a user who makes many directories slows the watcher without end.
const (
	maxRuns        = 4096
	maxRunsPerJob  = 4    // the newest restarts; older ones have ended long ago
	maxDirEntries  = 4096 // read of a job's directory, which its user may fill
	maxNodeEntries = 100_000
)

// runKey names a run on a node.
type runKey struct {
	node    string
	job     int64
	restart int
}

func (k runKey) less(o runKey) bool {
	if k.node != o.node {
		return k.node < o.node
	}
	if k.job != o.job {
		return k.job < o.job
	}
	return k.restart < o.restart
}

// jobDir is one job's directory on one node, as scan found it.
type jobDir struct {
	node, name string
	job        int64
	uid, gid   uint32
	ended      time.Time // when epilog marked it, zero while it has not
	written    time.Time // newest change of the directory, its runs and their progress files
	restarts   []int     // ascending, at most maxRunsPerJob
}

// scan lists the jobs' directories below base, sorted by node and job. Whatever is not as prolog and taskprolog make
// it is passed over.
func scan(base string) ([]jobDir, error) {
	b, err := os.Open(base)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	nodes, err := b.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	sort.Slice(nodes, func(i, j int) bool { return nodes[i].Name() < nodes[j].Name() })
	var out []jobDir
	for _, n := range nodes {
		if !progress.ValidNode(n.Name()) || !n.IsDir() {
			continue
		}
		d, err := openDir(b, n.Name())
		if err != nil {
			continue
		}
		out = append(out, scanNode(d, n.Name())...)
		d.Close()
	}
	return out, nil
}

func scanNode(d *os.File, node string) []jobDir {
	entries, _ := d.ReadDir(maxNodeEntries)
	ended := map[string]time.Time{}
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), endedSuffix); ok {
			if info, err := e.Info(); err == nil {
				ended[name] = info.ModTime()
			}
		}
	}
	var out []jobDir
	for _, e := range entries {
		digits, _, aside := strings.Cut(e.Name(), asideInfix)
		job, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || job <= 0 || strconv.FormatInt(job, 10) != digits || !e.IsDir() {
			continue
		}
		j, ok := scanJob(d, e.Name())
		if !ok {
			continue
		}
		if aside {
			j.restarts = nil // only for the sweep
		}
		j.node, j.name, j.job, j.ended = node, e.Name(), job, ended[e.Name()]
		out = append(out, j)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].job < out[j].job })
	return out
}

func scanJob(nodeDir *os.File, name string) (jobDir, bool) {
	d, err := openDir(nodeDir, name)
	if err != nil {
		return jobDir{}, false
	}
	defer d.Close()
	st, err := stat(d)
	if err != nil {
		return jobDir{}, false
	}
	j := jobDir{uid: st.Uid, gid: st.Gid, written: mtime(st)}
	entries, _ := d.ReadDir(maxDirEntries)
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), runPrefix)
		n, err := strconv.Atoi(digits)
		if ok && err == nil && n >= 0 && n < 1<<31 && strconv.Itoa(n) == digits && e.IsDir() {
			j.restarts = append(j.restarts, n)
		}
	}
	sort.Ints(j.restarts)
	j.restarts = j.restarts[max(0, len(j.restarts)-maxRunsPerJob):]
	for _, n := range j.restarts {
		j.written = later(j.written, lastWrite(d, runPrefix+strconv.Itoa(n)))
	}
	return j, true
}

// lastWrite returns the newest change of a run's directory and progress file.
func lastWrite(jobDir *os.File, run string) time.Time {
	r, err := openDir(jobDir, run)
	if err != nil {
		return time.Time{}
	}
	defer r.Close()
	var t time.Time
	if st, err := stat(r); err == nil {
		t = mtime(st)
	}
	if f, st, err := openRegular(r, progressName); err == nil {
		f.Close()
		t = later(t, mtime(st))
	}
	return t
}

// openJob opens a job's directory again. Nothing is kept open between rounds.
func openJob(base string, k runKey) (*os.File, error) {
	dir, err := os.Open(base)
	for _, name := range []string{k.node, strconv.FormatInt(k.job, 10)} {
		if err != nil {
			return nil, err
		}
		var next *os.File
		next, err = openDir(dir, name)
		dir.Close()
		dir = next
	}
	return dir, err
}

// Ages for the sweep.
const sweepUnmarked = 30 * 24 * time.Hour // without epilog's marker: the node crashed, or the job still runs silently

// sweep removes the directories of jobs that ended: marked by epilog and unwritten for keep, or unmarked and unwritten
// for 30 days. A requeued job's prolog takes the marker away, so a directory in use is never swept. It removes below an
// open root, which links planted by the user cannot leave.
func sweep(base string, jobs []jobDir, keep time.Duration, now time.Time) (removed int, err error) {
	for _, j := range jobs {
		limit := sweepUnmarked
		if !j.ended.IsZero() {
			limit = keep
		}
		if now.Sub(later(j.written, j.ended)) < limit {
			continue
		}
		if e := removeJob(base, j); e != nil {
			err = e
			continue
		}
		removed++
	}
	return removed, err
}

func removeJob(base string, j jobDir) error {
	root, err := os.OpenRoot(base)
	if err != nil {
		return err
	}
	defer root.Close()
	node, err := root.OpenRoot(j.node)
	if err != nil {
		return err
	}
	defer node.Close()
	if err := node.RemoveAll(j.name); err != nil {
		return err
	}
	if err := node.Remove(j.name + endedSuffix); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

func mtime(st *syscall.Stat_t) time.Time { return time.Unix(st.Mtim.Sec, st.Mtim.Nsec) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
