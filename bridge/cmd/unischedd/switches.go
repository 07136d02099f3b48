package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rs/zerolog"

	"unisched/bridge"
	"unisched/slurm"
)

// switches are orders by file, for whom the control socket is out of reach: a file `pause` in the state directory pauses while it is there, a file `release` gives back
// the jobs that it names by number, one a line, or all when it names none, and is removed. They are looked at before every cycle.
type switches struct {
	dir   string
	order func(bridge.Order)
	log   zerolog.Logger
	was   bool // the pause file was there at the last look
	begun bool
}

const maxReleases = 10000 // jobs that one release file may name

// newSwitches orders through the loop's own queue; the next cycle takes what is put there.
func newSwitches(dir string, body stepper, log zerolog.Logger) *switches {
	done, cancel := context.WithCancel(context.Background())
	cancel() // nobody waits for the answer: it is in the log
	return &switches{dir: dir, log: log, order: func(o bridge.Order) { _, _ = body.Order(done, o) }}
}

// mark remembers over a restart that it was the file that paused, so that its removal resumes and no other pause is ended by it.
func (s *switches) mark() string { return filepath.Join(s.dir, "paused-by-file") }

// look turns what changed since the last look into orders. The newest word counts: a pause by file can be ended by an order, and the other way round.
func (s *switches) look() {
	if !s.begun {
		s.begun, s.was = true, exists(s.mark())
	}
	switch is := exists(filepath.Join(s.dir, "pause")); {
	case is && !s.was:
		if err := os.WriteFile(s.mark(), nil, 0o600); err != nil {
			s.log.Error().Err(err).Msg("pause by file")
		}
		s.was = true
		s.order(bridge.Order{Kind: bridge.OrderPause, By: "file " + filepath.Join(s.dir, "pause")})
	case !is && s.was:
		s.was = false
		s.order(bridge.Order{Kind: bridge.OrderResume, By: "file " + filepath.Join(s.dir, "pause") + ", removed"})
		if err := os.Remove(s.mark()); err != nil && !errors.Is(err, os.ErrNotExist) {
			s.log.Error().Err(err).Msg("resume by file")
		}
	}
	s.release()
}

// release obeys a release file and removes it first: one that stays would be obeyed again and again. One with a line that is no number is put aside, and nothing is done.
func (s *switches) release() {
	path := filepath.Join(s.dir, "release")
	f, err := os.Open(path)
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			s.log.Error().Err(err).Msg("release by file")
		}
		return
	}
	jobs, err := readJobs(f)
	f.Close()
	if err != nil {
		s.log.Error().Err(err).Str("moved_to", path+".bad").Msg("release by file: not understood, nothing is released")
		if err := os.Rename(path, path+".bad"); err != nil {
			s.log.Error().Err(err).Msg("release by file")
		}
		return
	}
	if err := os.Remove(path); err != nil {
		s.log.Error().Err(err).Msg("release by file: it cannot be removed, nothing is released")
		return
	}
	if len(jobs) == 0 {
		jobs = []slurm.JobID{0}
	}
	for _, id := range jobs {
		s.order(bridge.Order{Kind: bridge.OrderRelease, Job: id, By: "file " + path})
	}
}

// readJobs reads job numbers, one a line.
func readJobs(r io.Reader) ([]slurm.JobID, error) {
	var out []slurm.JobID
	lines := bufio.NewScanner(io.LimitReader(r, 1<<20))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" {
			continue
		}
		n, err := strconv.ParseInt(line, 10, 62)
		if err != nil || n <= 0 {
			return nil, errors.New("a line is no job number")
		}
		if out = append(out, slurm.JobID(n)); len(out) > maxReleases {
			return nil, errors.New("too many jobs")
		}
	}
	return out, lines.Err()
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
