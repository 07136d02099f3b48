package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"unisched/bridge"
	"unisched/bridge/ask"
	"unisched/bridge/control"
	"unisched/bridge/journal"
	"unisched/bridge/nodes"
	"unisched/bridge/siteconfig"
	"unisched/hooks/progress"
	"unisched/planner/lease"
	"unisched/planner/milp"
	"unisched/planner/milp/highs"
)

// serve wires the daemon and runs it until ctx ends.
func serve(ctx context.Context, site siteconfig.Site, log zerolog.Logger, once bool) error {
	system, err := openSystemd(os.Getpid())
	if err != nil {
		log.Warn().Err(err).Msg("the service manager is not told anything")
	}
	defer system.close()
	if err := ownFolder(site.Daemon.StateDir); err != nil {
		return err
	}
	open := openJournal
	if once {
		open = func(context.Context, siteconfig.Site, zerolog.Logger, *systemd) (*journal.Journal, journal.Opened, error) {
			return journal.Open(site.Daemon.StateDir)
		}
	}
	j, found, err := open(ctx, site, log, system)
	if err != nil && ctx.Err() != nil {
		return nil // told to end while it stood by
	}
	if err != nil {
		return err
	}
	defer j.Close()
	if found.Damaged != "" {
		log.Error().Str("file", found.Damaged).Str("why", found.Why).Int("entries", len(found.Latest)).
			Msg("the journal is damaged and kept under another name: starting from what can be read and from what Slurm shows; look at held jobs yourself (squeue -t PD -o '%i %r', scontrol release ID)")
	}
	if found.TornBytes > 0 {
		log.Warn().Int64("bytes", found.TornBytes).Msg("the journal's torn end was cut off")
	}
	w := newWatch(site, log, system)
	defer w.close()
	options := site.Slurm.Options()
	options.Begin = w.request
	cluster, err := newCluster(options)
	if err != nil {
		return err
	}
	if site.Bridge.Network, err = readTopology(site.TopologyFile); err != nil {
		log.Warn().Err(err).Msg("the network is taken to be flat")
	}
	var listener *nodes.Listener
	solve, end := highs.Open(highs.Options{})
	defer end()
	parts := bridge.Parts{
		Cluster: cluster, Memory: j, Log: w.note,
		Policy: lease.New(site.Lease(time.Now), w.pulse.solver(solve)),
	}
	if site.Daemon.Listen != "" && !once {
		if listener, err = newListener(site.Daemon); err != nil {
			return err
		}
		parts.Reports = listener.Drain
		parts.GPULooks = looks(listener)
	}
	body, err := bridge.New(site.Bridge, parts, bridge.Restored{Entries: found.Latest, Damaged: found.Damaged != ""})
	if err != nil {
		return err
	}
	w.view, w.journal, w.listener = body.View, j.Size, listener
	w.beat = withRounds(filepath.Join(site.Daemon.StateDir, "rounds"), body.View, heartbeat(site.Daemon.StateDir, log),
		func(err error) { log.Warn().Err(err).Msg("a round could not be stored") })
	if once {
		now := wallClock()
		err := body.Step(ctx, now)
		w.done(now, err)
		return err
	}
	d := daemon{site: site, log: log, body: body, listener: listener, watch: w, held: j.Held}
	return d.run(ctx)
}

// daemon is the loop and the two servers beside it.
type daemon struct {
	site     siteconfig.Site
	log      zerolog.Logger
	body     stepper
	listener *nodes.Listener // nil: none
	watch    *watch
	held     func() error // whether the journal is still ours
}

// run opens the sockets, then runs loop and servers until ctx ends or a server fails. It returns when all of them have ended; the servers
// outlive the last cycle.
func (d daemon) run(ctx context.Context) error {
	stopped, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	servers, closeServers := context.WithCancel(context.WithoutCancel(ctx))
	defer closeServers()

	var group sync.WaitGroup
	start := func(what string, serve func() error) {
		group.Go(func() {
			if err := serve(); err != nil {
				stop(fmt.Errorf("%s: %w", what, err))
			}
		})
	}
	ctl, err := d.openControl()
	if err != nil {
		return err
	}
	operators, err := d.site.Daemon.OperatorUIDs(lookupUID)
	if err != nil {
		d.log.Warn().Err(err).Msg("some operators are unknown here and get no rights")
	}
	api := control.Server{View: d.body.View, Order: d.body.Order, Operator: func(uid uint32) bool { return operators[uid] }, Asker: newAsker(d.site), Mounts: d.watch.mounts()}
	start("control socket", func() error { return api.Serve(servers, ctl) })
	if err := d.startPage(servers, start, api); err != nil {
		closeServers()
		group.Wait()
		return err
	}
	if d.listener != nil {
		ln, cfg, err := openListener(d.site.Daemon)
		if err != nil {
			closeServers()
			group.Wait()
			return err
		}
		d.log.Info().Str("address", ln.Addr().String()).Bool("tls", cfg != nil).Msg("listening for node reports")
		start("node listener", func() error { return d.listener.Serve(servers, ln, cfg) })
	}
	if err := d.serveMetrics(servers, start); err != nil {
		closeServers()
		group.Wait()
		return err
	}
	group.Go(func() { d.watch.sender.Run(servers) })
	group.Go(func() {
		watchdog(servers, d.watch.system.period(), d.watch.pulse.alive, func() { d.watch.system.tell("WATCHDOG=1") }, d.log)
	})
	d.watch.system.tell("READY=1")
	d.log.Info().Str("version", version).Str("stage", string(d.site.Bridge.Stage)).Dur("unit", d.site.Bridge.Unit).Msg("unischedd runs")
	done := func(began time.Time, err error) {
		d.watch.done(began, err)
		if held := d.held(); errors.Is(held, journal.ErrLocked) {
			stop(fmt.Errorf("another instance has taken over: %w", held)) // and this one will stand by when it is started again
		}
	}
	loop{body: d.body, poll: d.site.Bridge.Poll, before: newSwitches(d.site.Daemon.StateDir, d.body, d.log).look, done: done}.run(stopped)
	d.watch.system.tell("STOPPING=1")
	closeServers()
	group.Wait()
	if err := context.Cause(stopped); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	d.log.Info().Msg("unischedd ends; jobs that wait start by themselves when their delays end")
	return nil
}

// serveMetrics opens the TCP address for Prometheus, if the site wants one.
func (d daemon) serveMetrics(ctx context.Context, start func(what string, serve func() error)) error {
	if d.site.Metrics.Listen == "" {
		return nil
	}
	ln, err := net.Listen("tcp", d.site.Metrics.Listen)
	if err != nil {
		return fmt.Errorf("metrics.listen: %w", err)
	}
	srv := d.watch.metricsServer()
	context.AfterFunc(ctx, func() { srv.Close() })
	d.log.Info().Str("address", ln.Addr().String()).Msg("metrics for Prometheus")
	start("metrics", func() error { return closed(srv.Serve(ln)) })
	return nil
}

// newAsker makes the planner of what-if questions, apart from the loop's and with a solver of its own.
func newAsker(site siteconfig.Site) *ask.Asker {
	return &ask.Asker{Config: site.Lease(time.Now), Solve: func() milp.Solver { return highs.New(highs.Options{}) }, Clock: wallClock}
}

// startPage serves the page on TCP when the site asks for it.
func (d daemon) startPage(ctx context.Context, start func(string, func() error), api control.Server) error {
	if d.site.Web.Listen == "" {
		return nil
	}
	ln, err := net.Listen("tcp", d.site.Web.Listen)
	if err != nil {
		return fmt.Errorf("web.listen: %w", err)
	}
	d.log.Info().Str("address", ln.Addr().String()).Msg("serving the page")
	start("page", func() error { return api.ServeWeb(ctx, ln, d.site.Web.Hosts) })
	return nil
}

func (d daemon) openControl() (net.Listener, error) {
	gid := -1
	if g := d.site.Daemon.SocketGroup; g != "" {
		var err error
		if gid, err = lookupGID(g); err != nil {
			return nil, fmt.Errorf("daemon.socket_group: %w", err)
		}
	}
	ln, err := control.Listen(d.site.Daemon.ControlSocket, d.site.Daemon.SocketMode, gid)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: make the folder %s, or set daemon.control_socket", err, filepath.Dir(d.site.Daemon.ControlSocket))
	}
	return ln, err
}

// ownFolder refuses a state folder into which anybody may write: a file pause or release there is an order, and the journal says what is undone to whom.
func ownFolder(dir string) error {
	fi, err := os.Stat(dir)
	if err != nil { // it is made, or the journal says what is wrong
		return nil
	}
	if mode := fi.Mode().Perm(); mode&0o002 != 0 {
		return fmt.Errorf("daemon.state_dir %s may be written by anybody (mode %#o): chmod o= it, after a look at what is in it", dir, mode)
	}
	return nil
}

// newListener reads the key. A key that others can read signs nothing.
func newListener(d siteconfig.Daemon) (*nodes.Listener, error) {
	fi, err := os.Stat(d.NodeKeyFile)
	if err != nil {
		return nil, fmt.Errorf("daemon.node_key_file: %w", err)
	}
	if fi.Mode().Perm()&0o007 != 0 {
		return nil, fmt.Errorf("daemon.node_key_file %s may be read or written by anybody (mode %#o): chmod o= it", d.NodeKeyFile, fi.Mode().Perm())
	}
	content, err := os.ReadFile(d.NodeKeyFile)
	if err != nil {
		return nil, fmt.Errorf("daemon.node_key_file: %w", err)
	}
	key, err := progress.ParseKey(content)
	if err != nil {
		return nil, fmt.Errorf("daemon.node_key_file %s: %w", d.NodeKeyFile, err)
	}
	return nodes.New(key, time.Now)
}

func openListener(d siteconfig.Daemon) (net.Listener, *tls.Config, error) {
	var cfg *tls.Config
	if d.TLSCertFile != "" {
		cert, err := tls.LoadX509KeyPair(d.TLSCertFile, d.TLSKeyFile)
		if err != nil {
			return nil, nil, fmt.Errorf("daemon.tls_cert_file: %w", err)
		}
		cfg = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	}
	ln, err := net.Listen("tcp", d.Listen)
	if err != nil {
		return nil, nil, fmt.Errorf("daemon.listen: %w", err)
	}
	return ln, cfg, nil
}

func lookupUID(name string) (uint32, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(u.Uid, 10, 32)
	return uint32(n), err
}

func lookupGID(name string) (int, error) {
	if n, err := strconv.ParseUint(name, 10, 31); err == nil {
		return int(n), nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(g.Gid)
}
