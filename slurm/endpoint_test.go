package slurm

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/slurm/slurmtest"
)

// pair is a client of two slurmrestds, each with a cluster of its own, so that requests can be told apart.
type pair struct {
	*Client
	a, b *slurmtest.Cluster
	net  *slurmtest.Net
}

func inPair(t *testing.T, f func(t *testing.T, p pair)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := pair{a: slurmtest.New(4, 2), b: slurmtest.New(4, 2)}
		p.net = slurmtest.NewNet(map[string]http.Handler{"a": p.a, "b": p.b})
		defer p.net.Close()
		var err error
		if p.Client, err = New(Options{URL: "http://a:1", Others: []string{"http://b:1"}, Dial: p.net.Dial, BackAfter: 5 * time.Minute}); err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		f(t, p)
	})
}

func (p pair) took() (a, b []string) {
	a, _ = p.a.Took()
	b, _ = p.b.Took()
	return a, b
}

// A read goes on elsewhere whatever the first endpoint does, stays there, and comes back to the first one when that has recovered.
func TestFailover(t *testing.T) {
	fault := func(f slurmtest.Fault) func(pair) {
		return func(p pair) { p.a.Break(func(*http.Request) slurmtest.Fault { return f }) }
	}
	heal := func(p pair) { p.a.Break(nil); p.net.SetDown("a", false) }
	for _, tt := range []struct {
		name string
		bad  func(pair)
	}{
		{"dead", func(p pair) { p.net.SetDown("a", true); p.reset() }},
		{"hangs", fault(slurmtest.Fault{Hang: true})},
		{"drops connections", fault(slurmtest.Fault{Drop: true})},
		{"cuts answers off", fault(slurmtest.Fault{Cut: true})},
		{"HTTP 500", fault(slurmtest.Fault{Status: 500})},
		{"HTTP 502", fault(slurmtest.Fault{Status: 502})},
		{"HTTP 503", fault(slurmtest.Fault{Status: 503})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inPair(t, func(t *testing.T, p pair) {
				look := func() {
					t.Helper()
					if s, err := p.State(t.Context(), time.Now()); err != nil || len(s.Jobs) != 4 || len(s.Nodes) != 2 || len(s.Odd) != 0 {
						t.Fatalf("%d jobs, %d nodes, odd %v, %v", len(s.Jobs), len(s.Nodes), s.Odd, err)
					}
				}
				look()
				if a, b := p.took(); len(a) == 0 || len(b) != 0 {
					t.Fatalf("well: %v, %v", a, b)
				}
				tt.bad(p)
				look()
				p.took()
				time.Sleep(time.Minute)
				look()
				if a, b := p.took(); len(a) != 0 || len(b) == 0 || p.Endpoint() != "http://b:1" {
					t.Errorf("not kept: %v, %v", a, b)
				}
				time.Sleep(5 * time.Minute)
				look() // asks the first one, which is still bad
				if a, _ := p.took(); p.Endpoint() != "http://b:1" || strings.Contains(strings.Join(a, " "), "jobs") {
					t.Errorf("gone back to one that is still bad: %v", a)
				}
				heal(p)
				look()
				if p.Endpoint() != "http://b:1" {
					t.Error("gone back at once")
				}
				time.Sleep(5 * time.Minute)
				p.took()
				look()
				if a, b := p.took(); p.Endpoint() != "http://a:1" || len(b) != 0 || len(a) == 0 {
					t.Errorf("not gone back: %v, %v", a, b)
				}
			})
		})
	}
}

// reset closes connections that are kept open.
func (p pair) reset() {
	for _, e := range p.ends {
		e.reads.CloseIdleConnections()
	}
}

// What says that too much is asked, and what is plainly refused, is the same everywhere: nobody else is asked.
func TestNoFailover(t *testing.T) {
	for _, tt := range []struct {
		status int
		kind   error
	}{{429, ErrRateLimited}, {401, ErrUnauthorised}, {511, ErrUnauthorised}} {
		inPair(t, func(t *testing.T, p pair) {
			p.a.Break(func(*http.Request) slurmtest.Fault { return slurmtest.Fault{Status: tt.status} })
			_, err := p.Nodes(t.Context())
			if _, b := p.took(); !errors.Is(err, tt.kind) || len(b) != 0 || p.Endpoint() != "http://a:1" {
				t.Errorf("%d: %v, then %v", tt.status, err, b)
			}
		})
	}
}

// A write is sent to one endpoint, once, whatever becomes of it; only the next call goes elsewhere.
func TestWritesDoNotFailOver(t *testing.T) {
	write := func(p pair) error {
		return p.Update(context.Background(), JobID(3).Ref(), Update{Hold: Some(true)})
	}
	for _, tt := range []struct {
		name    string
		fault   slurmtest.Fault
		down    bool
		kind    error
		carried int // by the first
	}{
		{"carried out, then dropped", slurmtest.Fault{Drop: true}, false, ErrUnknownOutcome, 1},
		{"dropped", slurmtest.Fault{Refuse: true}, false, ErrUnknownOutcome, 0},
		{"hangs", slurmtest.Fault{Hang: true}, false, ErrUnknownOutcome, 0},
		{"HTTP 500", slurmtest.Fault{Status: 500}, false, ErrUnknownOutcome, 0},
		{"HTTP 503", slurmtest.Fault{Status: 503}, false, ErrRateLimited, 0},
		{"dead", slurmtest.Fault{}, true, ErrUnavailable, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inPair(t, func(t *testing.T, p pair) {
				if _, err := p.Ping(t.Context()); err != nil {
					t.Fatal(err)
				}
				p.took()
				p.a.Break(func(*http.Request) slurmtest.Fault { return tt.fault })
				p.net.SetDown("a", tt.down)
				err := write(p)
				_, wa := p.a.Took()
				rb, wb := p.b.Took()
				if !errors.Is(err, tt.kind) || len(wa) != tt.carried || len(wb) != 0 || len(rb) != 0 {
					t.Errorf("%v; carried out %v and %v; the other was asked %v", err, wa, wb, rb)
				}
				if err := write(p); err != nil { // a new call, not a repeated one
					t.Error(err)
				}
				if _, wb := p.b.Took(); len(wb) != 1 {
					t.Errorf("the next call: %v", wb)
				}
			})
		})
	}
}

// A slurmrestd whose slurmctlds are all away is left for another one; a backup that took over is as good as the primary.
func TestControllersTakeOver(t *testing.T) {
	inPair(t, func(t *testing.T, p pair) {
		p.a.SetControllers(false, true)
		pong, err := p.Ping(t.Context())
		want := []Controller{{Host: "ctl1"}, {Host: "ctl2", Up: true, Backup: true}}
		if d := cmp.Diff(want, pong.Controllers); err != nil || d != "" || p.Endpoint() != "http://a:1" {
			t.Errorf("%v\n%s", err, d)
		}
		p.a.SetControllers(false, false)
		if _, err := p.Ping(t.Context()); !errors.Is(err, ErrUnavailable) || p.Endpoint() != "http://b:1" {
			t.Errorf("%v, at %s", err, p.Endpoint())
		}
		if _, err := p.Ping(t.Context()); err != nil {
			t.Error(err)
		}
		// The first one answers, but nobody is behind it: no reason to go back.
		time.Sleep(6 * time.Minute)
		if _, err := p.Nodes(t.Context()); err != nil || p.Endpoint() != "http://b:1" {
			t.Errorf("%v, at %s", err, p.Endpoint())
		}
	})
}

// All are away: the error is the last one's, and each was asked once.
func TestAllEndpointsDown(t *testing.T) {
	inPair(t, func(t *testing.T, p pair) {
		f := func(*http.Request) slurmtest.Fault { return slurmtest.Fault{Status: 500} }
		p.a.Break(f)
		p.b.Break(f)
		_, err := p.Nodes(t.Context())
		if a, b := p.took(); !errors.Is(err, ErrUnavailable) || len(a) != 1 || len(b) != 1 {
			t.Errorf("%v; %v, %v", err, a, b)
		}
	})
}

// However many call, one request is under way.
func TestOneRequestInFlight(t *testing.T) {
	inPair(t, func(t *testing.T, p pair) {
		p.a.Break(func(*http.Request) slurmtest.Fault { time.Sleep(time.Second); return slurmtest.Fault{} })
		var group sync.WaitGroup
		for i := range 12 {
			group.Go(func() {
				var err error
				switch i % 3 {
				case 0:
					_, err = p.Nodes(t.Context())
				case 1:
					err = p.Update(t.Context(), JobID(1).Ref(), Update{Hold: Some(true)})
				default:
					_, err = p.Job(t.Context(), 1)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if n := p.a.MostAtOnce(); n != 1 {
			t.Errorf("%d at once", n)
		}
		// Who waits for its turn goes when its caller does, and nothing was sent.
		release := make(chan struct{})
		p.a.Break(func(*http.Request) slurmtest.Fault { <-release; return slurmtest.Fault{} })
		group.Go(func() { p.Nodes(t.Context()) })
		synctest.Wait()
		p.took()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := p.Update(ctx, JobID(1).Ref(), Update{Hold: Some(true)})
		if a, _ := p.took(); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnknownOutcome) || len(a) != 0 {
			t.Errorf("%v, %v", err, a)
		}
		close(release)
		group.Wait()
	})
}
