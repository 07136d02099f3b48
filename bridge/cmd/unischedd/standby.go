package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"unisched/bridge"
	"unisched/bridge/control"
	"unisched/bridge/journal"
	"unisched/bridge/siteconfig"
)

// standbyEvery is how often an instance that stands by tries to take over. It is also its sign of life for the service manager.
const standbyEvery = 2 * time.Second

// openJournal takes the journal. While another instance has it, this one stands by: it writes nothing, says who has it, in the log, to the
// service manager and on the control socket (unless the other one answers there), and takes over when the other one is gone. One cluster thus
// has one writer, whoever starts how many daemons on the same state_dir.
func openJournal(ctx context.Context, site siteconfig.Site, log zerolog.Logger, system *systemd) (*journal.Journal, journal.Opened, error) {
	j, found, err := journal.Open(site.Daemon.StateDir)
	if !errors.Is(err, journal.ErrLocked) {
		return j, found, err
	}
	s := standby{site: site, log: log, system: system}
	defer s.quiet()
	tick := time.NewTicker(standbyEvery)
	defer tick.Stop()
	for {
		s.say(journal.Owner(site.Daemon.StateDir))
		select {
		case <-ctx.Done():
			return nil, journal.Opened{}, context.Cause(ctx)
		case <-tick.C:
		}
		j, found, err := journal.Open(site.Daemon.StateDir)
		switch {
		case errors.Is(err, journal.ErrLocked):
			continue
		case err != nil:
			return nil, found, err
		}
		// Where the lock of a host that is cut off has run out before its daemon noticed: a journal that was replaced it writes no more.
		if err := j.Compact(found.Latest); err != nil {
			j.Close()
			return nil, found, err
		}
		log.Warn().Msg("the other instance is gone: taking over")
		return j, found, nil
	}
}

// standby is what an instance shows while it waits.
type standby struct {
	site   siteconfig.Site
	log    zerolog.Logger
	system *systemd
	said   string

	mu    sync.Mutex
	view  *bridge.View
	close func() // of the control socket; nil: not open
}

// say tells who is at work.
func (s *standby) say(owner string) {
	text := "standing by, read-only: " + owner + " has the journal in " + s.site.Daemon.StateDir
	if s.said != text {
		s.said = text
		s.log.Warn().Msg(text)
		s.system.tell("READY=1")
		s.system.say(text)
	}
	s.system.tell("WATCHDOG=1")
	s.mu.Lock()
	s.view = &bridge.View{Schema: bridge.ViewSchema, At: wallClock(), Stage: s.site.Bridge.Stage, Unit: s.site.Bridge.Unit, Standby: text}
	s.mu.Unlock()
	s.answer()
}

// answer opens the control socket, when nobody answers there.
func (s *standby) answer() {
	if s.close != nil {
		return
	}
	ln, err := daemon{site: s.site}.openControl()
	if err != nil {
		return // the one at work answers there, or it will say itself what is wrong with it
	}
	ctx, stop := context.WithCancel(context.Background())
	var group sync.WaitGroup
	s.close = func() { stop(); group.Wait() }
	server := control.Server{
		View: func() *bridge.View {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.view
		},
		Order: func(context.Context, bridge.Order) (string, error) {
			return "", fmt.Errorf("%s: give the order there", s.said)
		},
		Operator: func(uint32) bool { return true }, // nothing can be ordered here
	}
	group.Go(func() { _ = server.Serve(ctx, ln) })
}

func (s *standby) quiet() {
	if s.close != nil {
		s.close()
	}
}
