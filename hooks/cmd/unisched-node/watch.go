package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os/signal"
	"sort"
	"strconv"
	"syscall"
	"time"

	"unisched/hooks/progress"
)

const (
	maxReportsPerRound = 8
	linesBudget        = progress.MaxReportBytes - 64<<10 // of a report's bytes, for lines; the rest is for the frame
	jobOverhead        = 512                              // bytes of a run's frame in a report, at most
	backoffMax         = 30 * time.Second
	resyncEvery        = 10 * time.Second // a daemon that always asks for a resync gets one this often
	sweepEvery         = 10 * time.Minute
	helloEvery         = time.Minute // a watcher without news says that it is there
)

// watcher tails the progress files of one base directory. All of its state is in memory: after its own restart it
// sends the current runs from their beginning, and the daemon knows lines that it has seen.
type watcher struct {
	base, node, instance string
	keep                 time.Duration
	send                 func(ctx context.Context, body []byte) (resync bool, err error)
	warn                 func(format string, args ...any)

	gpus   *sampler // nil: none
	seq    uint64
	skim   int64 // bytes that may still be skimmed in this round
	waits  bool  // some run had no budget left
	runs   map[runKey]*tail
	turn   int // which run comes first, so that a chatty one cannot keep others waiting
	resync time.Time
	swept  time.Time
	sent   time.Time // the last report that was delivered
	said   string    // the last problem told, to tell it once
}

// tail is what the watcher knows of one run.
type tail struct {
	key  runKey
	uid  uint32
	gid  uint32
	pos  position
	may  allowance
	told bool // that it floods its file
	live bool // read to its end and delivered: a new line was written since the last round

	ended time.Time // epilog's mark, zero while the job runs here
	over  bool      // ended, and read to its end after that
}

func (c call) watch() int {
	fl := flag.NewFlagSet("watch", flag.ContinueOnError)
	fl.SetOutput(c.stderr)
	base := fl.String("base", c.base(), "`directory` of the jobs' directories (default $UNISCHED_BASE)")
	url := fl.String("url", "", "`address` of the daemon's node listener, http://host:port")
	key := fl.String("key", "/etc/unisched/node.key", "`file` with the key that signs reports, 32 bytes or more")
	ca := fl.String("ca", "", "`file` with the certificate authority of an https url")
	interval := fl.Duration("interval", 2*time.Second, "time between rounds")
	node := fl.String("node", "", "name to report under (default $SLURMD_NODENAME, else the host name)")
	gpuPath := fl.String("gpu", findSampler(), "`program` that samples the GPUs, \"\" for none (default: unisched-gpu beside this one)")
	keep := fl.Duration("keep", 24*time.Hour, "how long the directory of an ended job stays")
	if err := fl.Parse(c.args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exitOK
		}
		return exitUsage
	}
	if *node == "" {
		var err error
		if *node, err = c.node(); err != nil {
			c.warn("watch: %v", err)
			return exitUsage
		}
	}
	if fl.NArg() > 0 || !progress.ValidNode(*node) || *interval < 100*time.Millisecond || *keep < time.Minute {
		c.warn("watch: want a plain node name, an interval of 0.1 s or more and a keep of a minute or more")
		return exitUsage
	}
	s, err := newSender(*url, *key, *ca)
	if err != nil {
		c.warn("watch: %v", err)
		return exitUsage
	}
	w := newWatcher(*base, *node, *keep, s.post, c.warn)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if *gpuPath != "" {
		w.gpus = newSampler(*gpuPath, c.warn)
		ended := make(chan struct{})
		go func() { defer close(ended); w.gpus.run(ctx) }()
		defer func() { <-ended }()
	}
	w.loop(ctx, *interval)
	return exitOK
}

func newWatcher(base, node string, keep time.Duration, send func(context.Context, []byte) (bool, error), warn func(string, ...any)) *watcher {
	id := make([]byte, 8)
	rand.Read(id) // never fails since Go 1.24
	return &watcher{base: base, node: node, instance: hex.EncodeToString(id), keep: keep, send: send, warn: warn, runs: map[runKey]*tail{}}
}

// loop runs rounds until ctx ends, and then one last short one. While sending fails the pause grows to 30 s.
func (w *watcher) loop(ctx context.Context, interval time.Duration) {
	pause := interval
	for {
		now := time.Now()
		err := w.round(ctx, now)
		if err == nil {
			err = w.hello(ctx, now)
		}
		if err != nil && ctx.Err() == nil {
			pause = min(pause*2, max(backoffMax, interval))
		} else {
			pause = interval
		}
		if ctx.Err() == nil {
			w.tell(err)
		}
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
			defer cancel()
			w.tell(w.round(last, time.Now()))
			return
		case <-time.After(pause):
		}
	}
}

// tell logs a problem when it begins and when it ends, not at each round.
func (w *watcher) tell(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == w.said {
		return
	}
	if w.said = text; text == "" {
		w.warn("watch: well again")
		return
	}
	w.warn("watch: %s", text)
}

// round looks at the tree once, sends what is new, and now and then sweeps.
func (w *watcher) round(ctx context.Context, now time.Time) error {
	jobs, err := scan(w.base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no job has run here yet
	}
	if err != nil {
		return err
	}
	w.follow(jobs, now)
	w.skim = skimRound
	if w.waits {
		w.turn, w.waits = w.turn+1, false // whoever had to wait comes first some time
	}
	sendErr := w.deliver(ctx, now)
	if sendErr != nil {
		for _, t := range w.runs {
			t.live = false // when lines without a time were written is not known any more
		}
	}
	if sendErr == nil && now.Sub(w.swept) >= sweepEvery {
		w.swept = now
		if _, err := sweep(w.base, jobs, w.keep, now); err != nil {
			return fmt.Errorf("sweep: %w", err)
		}
	}
	return sendErr
}

// hello sends a report without jobs when there are new figures of the GPUs, or nothing was sent for a while: the daemon learns that this watcher is
// there, and of which version it is.
func (w *watcher) hello(ctx context.Context, now time.Time) error {
	gpus := w.gpus.take()
	if gpus == nil && now.Sub(w.sent) < helloEvery {
		return nil
	}
	w.seq++
	r := progress.Report{SchemaVersion: progress.SchemaVersion, Node: w.node, Instance: w.instance, Seq: w.seq, Sent: now.UTC(), Version: version(), Jobs: []progress.JobReport{}, GPUs: gpus}
	body, err := r.Encode()
	if err != nil {
		return err
	}
	resync, err := w.send(ctx, body)
	if resync {
		w.rewind(now)
	}
	if err == nil {
		w.sent = now
	} else if !errors.Is(err, errRefused) {
		w.gpus.putBack(gpus)
	}
	return err
}

// follow makes w.runs what scan found: new runs from their beginning, vanished ones forgotten.
func (w *watcher) follow(jobs []jobDir, now time.Time) {
	found := map[runKey]bool{}
	for _, j := range jobs {
		for _, n := range j.restarts {
			k := runKey{j.node, j.job, n}
			if len(found) >= maxRuns {
				continue
			}
			found[k] = true
			t := w.runs[k]
			if t == nil || t.uid != j.uid {
				t = &tail{key: k, uid: j.uid, gid: j.gid, over: longAgo(j.ended, now)}
				w.runs[k] = t
			}
			t.may.fill(now)
			if t.ended = j.ended; j.ended.IsZero() {
				t.over = false // a requeued job is back
			}
		}
	}
	for k := range w.runs {
		if !found[k] {
			delete(w.runs, k)
		}
	}
}

// deliver sends reports until nothing new is left, at most maxReportsPerRound.
func (w *watcher) deliver(ctx context.Context, now time.Time) error {
	for range maxReportsPerRound {
		report, taken, more := w.collect(now)
		if len(report.Jobs) == 0 {
			return nil
		}
		w.seq++
		report.Seq = w.seq
		body, err := report.Encode()
		if err != nil {
			return err
		}
		resync, err := w.send(ctx, body)
		refused := errors.Is(err, errRefused)
		if err != nil && !refused {
			if resync {
				w.rewind(now)
			}
			return err
		}
		for t, b := range taken {
			t.pos, t.live = b.next, !b.more
		}
		if err == nil {
			w.sent = now
		}
		if refused { // the same report would be refused for ever: tell it and go on
			return err
		}
		if resync {
			w.rewind(now)
			return nil // the next round sends from the beginning
		}
		if !more {
			return nil
		}
	}
	return nil
}

// rewind makes the next round send every run from its beginning.
func (w *watcher) rewind(now time.Time) {
	if now.Sub(w.resync) < resyncEvery {
		return
	}
	w.resync = now
	for _, t := range w.runs {
		t.pos, t.live, t.over = position{}, false, longAgo(t.ended, now)
	}
}

// longAgo says whether a job ended so long ago that nobody waits for its lines after a restart of either side.
func longAgo(ended, now time.Time) bool {
	return !ended.IsZero() && now.Sub(ended) > time.Hour
}

// collect reads new lines of the runs, in turn, until a report is full. Nothing is taken off a run before the report
// is delivered.
func (w *watcher) collect(now time.Time) (progress.Report, map[*tail]batch, bool) {
	r := progress.Report{SchemaVersion: progress.SchemaVersion, Node: w.node, Instance: w.instance, Sent: now.UTC(), Version: version()}
	taken, more, room := map[*tail]batch{}, false, linesBudget
	order := w.order()
	for i, t := range order {
		if t.over {
			continue
		}
		var stamp time.Time
		if t.live {
			stamp = now
		}
		b, err := w.read(t, stamp)
		if errors.Is(err, errGone) {
			continue
		}
		if errors.Is(err, fs.ErrNotExist) {
			t.live, t.over = true, !t.ended.IsZero() // nothing written yet: the first line will be a new one
			continue
		}
		if err != nil {
			continue // not a plain file of the job's user: its own loss
		}
		if b.empty() {
			w.charge(t, b)
			w.waits = w.waits || b.more && b.next == t.pos
			t.pos, t.live = b.next, !b.more
			t.over = !b.more && !t.ended.IsZero()
			continue
		}
		size := jobOverhead
		for _, l := range b.lines {
			size += len(l) + 1
		}
		if size > room || len(r.Jobs) == progress.MaxReportJobs {
			w.turn += i // this one comes first in the next report
			return r, taken, true
		}
		w.charge(t, b)
		room -= size
		more = more || b.more
		taken[t] = b
		r.Jobs = append(r.Jobs, progress.JobReport{Job: t.key.job, Restart: t.key.restart, UID: int(t.uid), Node: t.key.node, Lines: b.lines, Dropped: b.dropped, Skipped: b.skipped})
	}
	return r, taken, more
}

// read takes the next lines of a run. What the job's user could have made, its own directory is the first of it, is opened with that user's rights.
func (w *watcher) read(t *tail, stamp time.Time) (b batch, err error) {
	job, err := openJob(w.base, t.key)
	if err != nil {
		return b, fmt.Errorf("%w: %w", errGone, err)
	}
	defer job.Close()
	rights := asUser(t.uid, t.gid, func() {
		dir, e := openDir(job, runPrefix+strconv.Itoa(t.key.restart))
		if e != nil {
			err = fmt.Errorf("%w: %w", errGone, e)
			return
		}
		defer dir.Close()
		b, err = take(dir, t.uid, t.pos, stamp, budget{t.may.bytes, w.skim})
	})
	return b, cmp.Or(rights, err)
}

// errGone: the run's directory was there when the tree was scanned.
var errGone = errors.New("gone since the scan")

// charge takes what a read cost off the budgets, and says once of each run that it floods its file.
func (w *watcher) charge(t *tail, b batch) {
	n := b.next.offset - t.pos.offset - b.skipped
	if b.next.dev != t.pos.dev || b.next.ino != t.pos.ino {
		n = b.next.offset - b.skipped
	}
	if n > chunkBytes { // more than is ever read line by line
		w.skim -= n
		if !t.told {
			t.told = true
			w.warn("watch: job %d, run %d floods its progress file: of what is too much only checkpoints and the like are read, or nothing", t.key.job, t.key.restart)
		}
		return
	}
	t.may.bytes -= n
}

// order returns the runs by key, beginning with whose turn it is.
func (w *watcher) order() []*tail {
	out := make([]*tail, 0, len(w.runs))
	for _, t := range w.runs {
		out = append(out, t)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].key.less(out[j].key) })
	if len(out) == 0 {
		return out
	}
	w.turn %= len(out)
	return append(out[w.turn:len(out):len(out)], out[:w.turn]...)
}
