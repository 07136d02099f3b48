//go:build sweep

package bridge_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/bridge/journal"
	"unisched/contrib/sweep/crashdisk"
	"unisched/planner/lease"
	"unisched/slurm"
)

// The crash sweep plays each of a set of small worlds once undisturbed and notes every effect: each call to Slurm and each create, write, truncate, sync and
// rename of the journal's file. Then it plays the world again for each effect and each way in which it can go wrong, and looks whether everything
// comes right again. It is built by contrib/sweep, which puts the journal on a disk that forgets what was not synced.

// way is how one effect goes wrong.
type way struct {
	effect int // from 1
	mode   string
	keep   int  // crash: bytes that were not synced and survive; below 0: all
	names  bool // crash: names that were not synced survive
	again  int  // crash: so many effects later the next daemon dies, too
	// What people, or Slurm, do right after the look of a cycle: the daemon has not seen it.
	cycle int
	job   slurm.JobID
}

func (p way) String() string {
	s := p.mode
	if p.keep > 0 {
		s += fmt.Sprintf(" with %d bytes", p.keep)
	} else if p.keep < 0 {
		s += " with all bytes"
	}
	if p.names {
		s += " and names"
	}
	if p.again > 0 {
		s += " (and again)"
	}
	if p.cycle > 0 {
		s += fmt.Sprintf(" in cycle %d, before", p.cycle)
	}
	return fmt.Sprintf("%s effect %d", s, p.effect)
}

// seenEffect is an effect of the undisturbed run and the ways in which it is made to go wrong.
type seenEffect struct {
	what  string
	job   slurm.JobID // of a call
	cycle int
	ways  []way
}

// stage is a world whose journal is on a disk that can lose power, and what is watched in it.
type stage struct {
	*world
	set       *setting
	runs      map[slurm.JobID]slurm.Job // as they truly were at that look
	shown     slurm.State               // what the daemon saw last
	disk      *crashdisk.Disk
	way       way
	rest      bool // no second fault
	n         int  // effects
	log       []seenEffect
	cycle     int // looks at Slurm
	diesAt    int // effect of the second death
	since     int // cycles of the daemon since the fault; -1: none yet
	late      func()
	lies      bool // the snapshot of this cycle is not true
	signals   map[oneRun]time.Time
	confirmed map[string]int64
	userHolds map[slurm.JobID]bool
	heldAt    time.Time
	expect    map[string]slurm.BaseState
	pinned    map[string]int  // cycles
	cut       map[string]bool // may lose iterations: a person stopped it
	second    *bridge.Bridge
	brokenTo  int // cycle until which the disk is broken
	died      bool
	torn      int // byte positions looked at
	server    *requeueServer
	submitted map[string]slurm.Job
}

// recording says that this is the undisturbed run.
func (s *stage) recording() bool { return s.way == way{} }

// startsWithin is a job that Slurm starts, if it may, while a call that names nodes is under way to it.
const startsWithin = "starts within"

type oneRun struct {
	id  slurm.JobID
	run int
}

func newStage(t *testing.T, set *setting, p way) *stage {
	w := newWorld(t, set.site)
	s := &stage{world: w, set: set, disk: crashdisk.New(), way: p, since: -1, signals: map[oneRun]time.Time{}, confirmed: map[string]int64{},
		userHolds: map[slurm.JobID]bool{}, expect: map[string]slurm.BaseState{}, cut: map[string]bool{}, pinned: map[string]int{}, submitted: map[string]slurm.Job{}}
	t.Cleanup(s.disk.Close)
	s.disk.Before = func(e crashdisk.Effect) { s.before(e.Op, 0) }
	s.disk.After = func(e crashdisk.Effect) { s.after(e) }
	s.disk.Fail = func(crashdisk.Effect) error { return s.broken() }
	w.down, w.b, w.boot = set.down, nil, s.start
	return s
}

// start opens the journal and makes a daemon, as its main function does. It returns nil when the journal is somebody else's.
func (s *stage) start() *bridge.Bridge {
	s.t.Helper()
	j, o, err := journal.Open(filepath.Join(s.disk.Root, "state"))
	if errors.Is(err, journal.ErrLocked) {
		return nil
	}
	if errors.Is(err, errDisk) { // its main function ends, and systemd tries again
		s.brokenTo--
		return nil
	}
	if err != nil {
		s.t.Fatalf("open the journal: %v", err)
	}
	if o.Damaged != "" {
		s.t.Errorf("the journal is damaged after a crash")
	}
	b, err := bridge.New(s.cfg, bridge.Parts{Cluster: guarded{s}, Policy: lease.New(lease.Config{}, nil), Memory: &growing{Journal: j}, Reports: s.sim.Reports,
		Log: func(_ time.Time, n bridge.Note) { s.notes = append(s.notes, n) }}, bridge.Restored{Entries: o.Latest, Damaged: o.Damaged != ""})
	if err != nil {
		s.t.Fatalf("open the bridge: %v", err)
	}
	return b
}

// growing is a journal that seems to have grown now and then, so that it is written anew.
type growing struct {
	*journal.Journal
	asked int
}

func (g *growing) Size() int64 {
	if g.asked++; g.asked%9 == 0 {
		return 1 << 40
	}
	return g.Journal.Size()
}

// before counts an effect and lets the daemon die ahead of it.
func (s *stage) before(what string, job slurm.JobID) {
	s.n++
	if s.recording() {
		e := seenEffect{what: what, job: job, cycle: s.cycle, ways: s.dies("before")}
		if job != 0 {
			for _, m := range []string{"after", "late", "unknown, done", "unknown, not done", "unknown, done late", "refused"} {
				e.ways = append(e.ways, way{effect: s.n, mode: m})
			}
		} else {
			e.ways = append(e.ways, way{effect: s.n, mode: "disk fails once at"})
			switch what { // the journal's two ways to notice: for a moment, and for longer than a delay
			case "sync":
				e.ways = append(e.ways, way{effect: s.n, mode: "disk broken for 4 cycles from"})
			case "write":
				e.ways = append(e.ways, way{effect: s.n, mode: longBroken}, way{effect: s.n, mode: diesBroken})
			}
		}
		s.log = append(s.log, e)
	}
	if s.hit("before") || s.rest && s.way.again > 0 && s.n == s.diesAt {
		s.die()
	}
}

func (s *stage) after(e crashdisk.Effect) {
	if s.recording() {
		ways := s.dies("after")
		if e.Op == "write" {
			for at, b := range e.Data[:len(e.Data)-1] {
				if b == '\n' {
					ways = append(ways, way{effect: s.n, mode: "after", keep: at + 1})
				}
			}
			ways = append(ways, way{effect: s.n, mode: "after", keep: len(e.Data) / 2, again: 12})
			ways = append(ways, way{effect: s.n, mode: "after", keep: len(e.Data) - 1}) // tear looks at every byte
			if !noTear {
				s.tear(e.Data)
			}
		}
		s.log[s.n-1].ways = append(s.log[s.n-1].ways, ways...)
	}
	if s.hit("after") {
		s.die()
	}
}

// dies are the crashes that differ here: what was not synced may be lost or kept.
func (s *stage) dies(mode string) []way {
	ways := []way{{effect: s.n, mode: mode}, {effect: s.n, mode: mode, again: 9}}
	bytes, names := s.disk.Unsynced()
	if bytes > 0 {
		ways = append(ways, way{effect: s.n, mode: mode, keep: -1})
	}
	if names {
		ways = append(ways, way{effect: s.n, mode: mode, keep: -1, names: true})
	}
	return ways
}

func (s *stage) hit(mode string) bool { return !s.rest && s.way.effect == s.n && s.way.mode == mode }

// The long failures of the disk. In the second the daemon dies after the next call that it makes all the same.
const (
	longBroken = "disk broken for 30 cycles from"
	diesBroken = "disk broken for 30 cycles, and dead after the next call, from"
)

// errDisk is what a broken disk says.
var errDisk = errors.New("no space left on the disk of the sweep")

// broken is the disk's word on the effect that comes.
func (s *stage) broken() error {
	if !s.rest && s.way.effect == s.n && strings.HasPrefix(s.way.mode, "disk ") {
		s.rest, s.since = true, 0
		s.brokenTo = s.cycle
		switch s.way.mode {
		case "disk broken for 4 cycles from":
			s.brokenTo = s.cycle + 4
		case longBroken, diesBroken:
			s.brokenTo = s.cycle + 30
		default:
			return errDisk
		}
	}
	if s.cycle < s.brokenTo {
		s.since = 0
		return errDisk
	}
	return nil
}

func (s *stage) die() {
	keep := s.way.keep
	if s.rest {
		keep = 0 // the second time
	} else {
		s.diesAt = s.n + s.way.again
	}
	s.rest, s.since, s.died = true, 0, true
	s.disk.Crash(keep, s.way.names)
	s.second = nil
	panic(crash{s.n})
}

// tear cuts an append at every byte and looks whether a journal that ends there holds exactly the entries that are whole, and takes another one. What
// lies before the line that is cut is the line ahead of it, or a journal of one entry, or, for the first line, the header alone: the reader looks at a line
// without its end after it has read all others, and [journal.Open] is tested to do so (TestTornLengthsAreAlike). Nobody can lose the header: the file appears with it.
func (s *stage) tear(data []byte) {
	s.t.Helper()
	head := headerLine()
	ahead := [][]byte{nil, firstLine()[len(head):]}
	for line := range bytes.Lines(data) {
		for _, prefix := range ahead {
			prefix = slices.Concat(head, prefix)
			for cut := range len(line) + 1 {
				s.torn++
				s.cutAt(prefix, line, cut)
			}
		}
		ahead = [][]byte{line}
	}
}

// cutAt is a journal that ends within a line.
func (s *stage) cutAt(prefix, line []byte, cut int) {
	s.t.Helper()
	d := crashdisk.New()
	defer d.Close()
	state := filepath.Join(d.Root, "state")
	d.Put(filepath.Join(state, "journal"), slices.Concat(prefix, line[:cut]))
	whole := prefix
	if cut == len(line) {
		whole = slices.Concat(prefix, line)
	}
	j, o, err := journal.Open(state)
	if err != nil || o.Damaged != "" || o.TornBytes != int64(len(prefix)+cut-len(whole)) || !bytes.Equal(d.Data(filepath.Join(state, "journal")), whole) {
		s.t.Fatalf("a line of %d bytes cut at %d: damaged %q, %d bytes torn: %v", len(line), cut, o.Damaged, o.TornBytes, err)
	}
	if cut != len(line)/2 { // the file is the same wherever it was cut
		j.Close()
		return
	}
	if err := j.Append(journal.Entry{Kind: "job", Key: "next", Data: json.RawMessage("{}")}); err != nil {
		s.t.Fatal(err)
	}
	j.Close()
	was := len(o.Latest)
	j, o, err = journal.Open(state)
	if err != nil || o.Damaged != "" || o.TornBytes != 0 || len(o.Latest) != was+1 {
		s.t.Fatalf("a line of %d bytes cut at %d, and another: damaged %q, %d entries after %d: %v", len(line), cut, o.Damaged, len(o.Latest), was, err)
	}
	j.Close()
}

// noTear leaves the bytes out, for a quick look.
var noTear = os.Getenv("SWEEP_TEAR") == "0"

// headerLine is a journal without entries.
var headerLine = sync.OnceValue(func() []byte {
	line, _, _ := bytes.Cut(firstLine(), []byte{'\n'})
	return append(line, '\n')
})

// firstLine is a journal with one entry.
var firstLine = sync.OnceValue(func() []byte {
	d := crashdisk.New()
	defer d.Close()
	state := filepath.Join(d.Root, "state")
	j, _, err := journal.Open(state)
	if err == nil {
		err = j.Append(journal.Entry{Kind: "job", Key: "first", Data: json.RawMessage("{}")})
	}
	if err != nil {
		panic(err)
	}
	return d.Data(filepath.Join(state, "journal"))
})
