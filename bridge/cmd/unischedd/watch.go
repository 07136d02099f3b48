package main

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"unisched/bridge"
	"unisched/bridge/account"
	"unisched/bridge/events"
	"unisched/bridge/metrics"
	"unisched/bridge/news"
	"unisched/bridge/nodes"
	"unisched/bridge/notify"
	"unisched/bridge/siteconfig"
	"unisched/slurm"
)

// watch tells everybody outside how the loop does: the log, the metrics, the store of events, notices, the service manager. It listens to the loop and
// changes nothing of it. note and done are called by the loop's goroutine.
type watch struct {
	site    siteconfig.Site
	log     zerolog.Logger
	toLog   func(time.Time, bridge.Note)
	met     *metrics.Metrics
	pulse   *pulse
	system  *systemd
	sender  *notify.Sender
	store   *events.Store  // nil: it cannot be written
	ended   *account.Store // nil: it cannot be written
	news    *news.Watcher
	pending []events.Event
	stands  map[string]bool // partitions whose standstill was told
	trouble string          // of the store, as logged last
	dropped int64

	// Set before the first cycle.
	view     func() *bridge.View
	journal  func() int64
	listener *nodes.Listener
	beat     func(time.Time, error)
}

// newWatch opens what it writes to. What cannot be opened costs history or messages, not the daemon.
func newWatch(site siteconfig.Site, log zerolog.Logger, system *systemd) *watch {
	w := &watch{site: site, log: log, toLog: notes(log), met: metrics.New(time.Now, version), system: system, news: news.New(wallClock()), stands: map[string]bool{},
		view: func() *bridge.View { return nil }, journal: func() int64 { return 0 }, beat: func(time.Time, error) {}}
	w.pulse = newPulse(time.Now, system.period(), site.Bridge.Poll)
	w.sender = notify.New(site.Notify, func(result string, err error) {
		w.met.Notice(result)
		if err != nil {
			log.Warn().Err(err).Msg("a notice was not delivered")
		}
	})
	var err error
	if w.store, err = events.Open(filepath.Join(site.Daemon.StateDir, "events")); err != nil {
		log.Error().Err(err).Msg("events are not kept")
	}
	if w.ended, err = account.Open(filepath.Join(site.Daemon.StateDir, account.Folder)); err != nil {
		log.Error().Err(err).Msg("what becomes of jobs is not kept")
		w.ended = nil
	}
	return w
}

func (w *watch) close() {
	if w.store != nil {
		w.store.Close()
	}
	if w.ended != nil {
		w.ended.Close()
	}
}

// request is told of each request to slurmrestd.
func (w *watch) request(kind slurm.RequestKind) func(status int) {
	bound := w.site.Slurm.Timeout
	if kind == slurm.KindList {
		bound = w.site.Slurm.ListTimeout
	}
	begin, end := time.Now(), w.pulse.work(bound+5*time.Second)
	return func(status int) {
		end()
		w.met.Request(kind, status, time.Since(begin))
	}
}

// note takes what the loop has to say.
func (w *watch) note(now time.Time, n bridge.Note) {
	w.toLog(now, n)
	w.met.Note(n)
	if e, ok := events.OfNote(now, n); ok && len(w.pending) < 10*events.MaxLimit {
		w.pending = append(w.pending, e)
	}
}

// done takes the end of a cycle.
func (w *watch) done(began time.Time, err error) {
	w.beat(began, err)
	w.pulse.finished()
	w.met.Cycle(began, max(wallClock().Sub(began), 0), err, w.journal())
	v := w.view()
	changes := w.news.Next(v)
	w.met.View(v, changes)
	w.counters()
	for _, c := range changes {
		w.pending = append(w.pending, events.OfChange(v.At, c)...)
		for _, n := range notify.Of(v, c) {
			w.sender.Offer(n)
		}
	}
	w.keep()
	w.keepEnded(v)
	if v != nil {
		w.standstills(v)
		w.system.say(statusLine(v, err))
	}
}

// counters fetches the numbers that are kept elsewhere.
func (w *watch) counters() {
	if w.listener != nil {
		c := w.listener.Counts()
		w.met.Reports(c.Reports, c.Refused, c.Full, c.Resyncs)
	}
	if n := droppedLines.Load(); n > w.dropped {
		w.met.LogDropped(int(n - w.dropped))
		w.dropped = n
	}
	if f := w.site.Slurm.TokenFile; f != "" {
		ends, _ := slurm.TokenExpiry(f) // what is wrong with it the requests say
		w.met.Token(ends)
	}
}

// keep writes the events of the cycle down.
func (w *watch) keep() {
	list := w.pending
	w.pending = w.pending[:0]
	if w.store == nil {
		return
	}
	trouble := ""
	if err := w.store.Append(list...); err != nil {
		trouble = err.Error()
	}
	if trouble != "" && w.trouble == "" {
		w.log.Warn().Str("error", trouble).Msg("events are not written")
	}
	w.trouble = trouble
}

// keepEnded writes down what became of the jobs that have ended.
func (w *watch) keepEnded(v *bridge.View) {
	if w.ended == nil {
		return
	}
	if err := w.ended.Keep(v); err != nil {
		w.log.Warn().Err(err).Msg("what became of a job could not be written down")
	}
}

// standstills offers a notice for each partition in which preemption has just stopped.
func (w *watch) standstills(v *bridge.View) {
	now := map[string]bool{}
	for _, s := range v.Standstills {
		if now[s.Partition] = true; !w.stands[s.Partition] {
			w.sender.Offer(notify.OfStandstill(v, s))
		}
	}
	w.stands = now
}

// statusLine is what `systemctl status` shows.
func statusLine(v *bridge.View, err error) string {
	s := fmt.Sprintf("stage %s", v.Stage)
	if v.Paused {
		s += ", paused"
	}
	running := 0
	for i := range v.Jobs {
		if v.Jobs[i].Phase.OnGPUs() {
			running++
		}
	}
	s += fmt.Sprintf(", %d of %d GPUs held by %d jobs", v.GPUs.Managed, v.GPUs.Total, running)
	switch {
	case err != nil:
		s += ": " + err.Error()
	case v.Suspect != "":
		s += "; nothing disruptive is done: " + v.Suspect
	case len(v.Standstills) > 0:
		s += "; " + v.Standstills[0].Why
	}
	return s[:min(len(s), 400)]
}

// mounts are the paths of the control socket that the watch answers.
func (w *watch) mounts() map[string]http.Handler {
	m := map[string]http.Handler{"/metrics": w.met.Handler()}
	if w.store != nil {
		m[events.Path] = w.store.Handler()
	}
	if w.ended != nil {
		m[account.Path] = account.Handler(filepath.Join(w.site.Daemon.StateDir, account.Folder))
	}
	if w.listener != nil {
		m[nodes.PathRoll] = w.listener.RollHandler()
	}
	return m
}

// metricsServer answers Prometheus on TCP, and nothing else.
func (w *watch) metricsServer() *http.Server {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", w.met.Handler())
	return &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 20 * time.Second, IdleTimeout: time.Minute,
		MaxHeaderBytes: 8 << 10}
}

// closed turns the answer of a server that was told to end into none.
func closed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
