package slurm

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"unisched/slurm/slurmtest"
)

// look is a poller over a cluster in which each kind of request takes its time.
type look struct {
	*Poller
	*slurmtest.Cluster
}

func inLook(t *testing.T, jobs int, took map[string]time.Duration, o PollOptions, f func(t *testing.T, l look)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := slurmtest.New(jobs, 4)
		slow := func(r *http.Request) slurmtest.Fault {
			time.Sleep(took[strings.Trim(strings.TrimPrefix(r.URL.Path, "/slurm/v0.0.45"), "/")])
			return slurmtest.Fault{}
		}
		c.Break(slow)
		network := slurmtest.NewNet(map[string]http.Handler{"a": c})
		defer network.Close()
		client, err := New(Options{URL: "http://a:1", Version: "v0.0.45", Dial: network.Dial, Timeouts: Timeouts{One: 5 * time.Second, List: 60 * time.Second}})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		o.Clock = time.Now
		f(t, look{NewPoller(client, o), c})
	})
}

// asked are the requests since the last time, those that every look makes left out.
func (l look) asked() []string {
	all, _ := l.Took()
	return slices.DeleteFunc(all, func(s string) bool {
		return s == "GET /nodes/" || s == "GET /partitions/" || s == "GET /reservations/"
	})
}

func (l look) state(t *testing.T) State {
	t.Helper()
	s, err := l.State(t.Context(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var (
	lists6s = map[string]time.Duration{"jobs": 6 * time.Second}
	list    = []string{"GET /jobs/"}
	both    = []string{"GET /jobs/state/", "GET /jobs/"}
	cheap   = []string{"GET /jobs/state/"}
)

// A quick list is read at every look; nothing is saved where there is nothing to save.
func TestPollSmallCluster(t *testing.T) {
	inLook(t, 20, nil, PollOptions{}, func(t *testing.T, l look) {
		for i := range 3 {
			want := list
			if i == 0 { // nobody knows yet that lists are quick
				want = both
			}
			l.state(t)
			if d := cmp.Diff(want, l.asked()); d != "" {
				t.Error(d)
			}
			time.Sleep(10 * time.Second)
		}
	})
}

// case 48: full lists come at a tenth of the time they take; between them only what changed is read.
func TestPollByChanges(t *testing.T) {
	inLook(t, 40, lists6s, PollOptions{}, func(t *testing.T, l look) {
		l.state(t) // the first slow list is enough
		full := time.Now()
		if d := cmp.Diff(both, l.asked()); d != "" {
			t.Error(d)
		}
		l.SetJob(3, func(j *slurmtest.Job) { j.State, j.Nodes = "COMPLETED", "" })
		l.Change(func(jobs []slurmtest.Job, nodes []slurmtest.Node) ([]slurmtest.Job, []slurmtest.Node) {
			return append(slices.Delete(jobs, 4, 5), slurmtest.Job{ID: 99, State: "PENDING", GPUs: 2}), nodes
		})
		l.SetJob(8, func(j *slurmtest.Job) { j.Comment = "changed by its user" }) // seen at the next full list
		s := l.state(t)
		if d := cmp.Diff([]string{"GET /jobs/state/", "GET /job/3", "GET /job/99"}, l.asked()); d != "" {
			t.Error(d)
		}
		find := func(id JobID) (Job, bool) {
			i := slices.IndexFunc(s.Jobs, func(j Job) bool { return j.ID == id })
			if i < 0 {
				return Job{}, false
			}
			return s.Jobs[i], true
		}
		if j, _ := find(3); j.State != StateCompleted {
			t.Errorf("job 3 is %s", j.State)
		}
		if _, there := find(5); there {
			t.Error("job 5 is still there")
		}
		if j, there := find(99); !there || j.Request.GPUs != 2 || len(s.Jobs) != 40 || !s.At.Equal(time.Now()) {
			t.Errorf("job 99: %v %+v of %d", there, j.Request, len(s.Jobs))
		}
		if j, _ := find(8); j.Comment != "" {
			t.Error("job 8 was read")
		}
		for time.Since(full) < 50*time.Second {
			time.Sleep(10 * time.Second)
			l.state(t)
			if d := cmp.Diff(cheap, l.asked()); d != "" {
				t.Error(d)
			}
		}
		time.Sleep(10 * time.Second)
		if s = l.state(t); !slices.Contains(l.asked(), "GET /jobs/") {
			t.Error("no full list after a minute")
		}
		if j, _ := find(8); j.Comment == "" {
			t.Error("what was changed is not seen after a full list")
		}
		if d := cmp.Diff(PollCounts{Full: 2, Delta: 6, Records: 2}, l.Counts()); d != "" {
			t.Error(d)
		}
	})
}

// What the poller's own writes touched is read again at once; what is to be kept fresh, in turn.
func TestPollFresh(t *testing.T) {
	o := PollOptions{Fresh: func(j *Job) bool { return strings.Contains(j.Comment, "unisched") }, FreshTime: 2 * time.Second}
	took := map[string]time.Duration{"jobs": 30 * time.Second}
	for id := range 10 {
		took[fmt.Sprintf("job/%d", id)] = 600 * time.Millisecond
	}
	inLook(t, 8, took, o, func(t *testing.T, l look) {
		for id := 1; id <= 5; id++ {
			l.SetJob(id, func(j *slurmtest.Job) { j.Comment = "unisched:class=besteffort" })
		}
		l.SetJob(2, func(j *slurmtest.Job) { j.State = "COMPLETED" })
		l.state(t)
		l.state(t)
		if err := l.Update(t.Context(), JobID(7).Ref(), Update{Hold: Some(true)}); err != nil {
			t.Fatal(err)
		}
		l.asked()
		l.state(t)
		if d := cmp.Diff([]string{"GET /jobs/state/", "GET /job/7", "GET /job/1", "GET /job/3", "GET /job/4", "GET /job/5"}, l.asked()); d != "" {
			t.Error(d)
		}
		l.SetJob(6, func(j *slurmtest.Job) { j.Comment = "unisched:" }) // not seen as ours before the next full list
		took["job/4"] = 3 * time.Second                                 // the time is up after it
		l.state(t)
		l.state(t)
		if d := cmp.Diff([]string{"GET /jobs/state/", "GET /job/1", "GET /job/3", "GET /job/4", "GET /jobs/state/", "GET /job/5", "GET /job/1", "GET /job/3", "GET /job/4"}, l.asked()); d != "" {
			t.Error(d)
		}
	})
}

// When half of the cluster changes at once, one list is quicker than its records one by one.
func TestPollManyChanges(t *testing.T) {
	inLook(t, 2000, map[string]time.Duration{"jobs": time.Second}, PollOptions{}, func(t *testing.T, l look) {
		l.state(t)
		l.state(t)
		l.asked()
		l.Change(func(jobs []slurmtest.Job, nodes []slurmtest.Node) ([]slurmtest.Job, []slurmtest.Node) {
			for i := range jobs {
				jobs[i].State = "CANCELLED"
			}
			return jobs, nodes
		})
		s := l.state(t)
		if d := cmp.Diff(both, l.asked()); d != "" || s.Jobs[1999].State != StateCancelled {
			t.Errorf("%s\n%v", d, s.Jobs[1999].State)
		}
	})
}

// case 48: a server that has too much to do is left alone, for twice as long each time, and what was seen before stays.
func TestPollBacksOff(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault slurmtest.Fault
		waits []time.Duration
	}{
		{"429", slurmtest.Fault{Status: 429}, []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 2 * time.Minute, 2 * time.Minute}},
		{"503 with a wish", slurmtest.Fault{Status: 503, RetryAfter: "90"}, []time.Duration{90 * time.Second, 2 * time.Minute}},
		{"a wish without end", slurmtest.Fault{Status: 429, RetryAfter: "999999999"}, []time.Duration{5 * time.Minute}},
		{"rate limit in words", slurmtest.Fault{Status: 500, Body: `{"errors":[{"error":"RPC rate limit exceeded","error_number":0}]}`}, []time.Duration{10 * time.Second, 20 * time.Second}},
		{"no answer in time", slurmtest.Fault{Hang: true}, []time.Duration{10 * time.Second, 20 * time.Second}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inLook(t, 20, lists6s, PollOptions{}, func(t *testing.T, l look) {
				l.state(t)
				l.state(t)
				l.asked()
				l.Break(func(*http.Request) slurmtest.Fault { return tt.fault })
				for _, wait := range tt.waits {
					now := time.Now()
					if _, err := l.State(t.Context(), now); err == nil {
						t.Fatal("no error")
					}
					if n := len(l.asked()); n != 1 {
						t.Errorf("%d requests", n)
					}
					if _, err := l.State(t.Context(), now.Add(wait-time.Second)); !errors.Is(err, ErrRateLimited) || !strings.Contains(err.Error(), "last seen") || len(l.asked()) != 0 {
						t.Errorf("not left alone for %v: %v", wait, err)
					}
					time.Sleep(time.Until(now.Add(wait)))
				}
				l.Break(nil)
				if s := l.state(t); len(s.Jobs) != 20 {
					t.Errorf("%d jobs", len(s.Jobs))
				}
				l.state(t) // all is well: no pause
				if l.Counts().Pauses != len(tt.waits) {
					t.Errorf("%+v", l.Counts())
				}
			})
		})
	}
}

// After the controller was away its numbers may be somebody else's: everything is read anew.
func TestPollAfterAnOutage(t *testing.T) {
	inLook(t, 20, lists6s, PollOptions{}, func(t *testing.T, l look) {
		l.state(t)
		l.state(t)
		l.Break(func(*http.Request) slurmtest.Fault { return slurmtest.Fault{Status: 502} })
		if _, err := l.State(t.Context(), time.Now()); !errors.Is(err, ErrUnavailable) {
			t.Error(err)
		}
		l.Break(nil)
		l.asked()
		l.state(t)
		if d := cmp.Diff(both, l.asked()); d != "" {
			t.Error(d)
		}
		// An answer without jobs is no proof either.
		l.Change(func([]slurmtest.Job, []slurmtest.Node) ([]slurmtest.Job, []slurmtest.Node) { return nil, nil })
		l.state(t)
		if got := l.asked(); !slices.Contains(got, "GET /jobs/") {
			t.Errorf("%v", got)
		}
	})
}

// Whatever happens between two looks, a look by changes shows what a full list would show, as far as states go.
func TestPollEqualsAFullList(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(t *testing.T) {
			c := slurmtest.New(6, 2)
			c.Break(func(r *http.Request) slurmtest.Fault {
				if strings.HasSuffix(r.URL.Path, "/jobs/") {
					time.Sleep(time.Minute)
				}
				return slurmtest.Fault{}
			})
			network := slurmtest.NewNet(map[string]http.Handler{"a": c})
			defer network.Close()
			client, err := New(Options{URL: "http://a:1", Version: "v0.0.45", Dial: network.Dial})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			p := NewPoller(client, PollOptions{Clock: time.Now, Share: 1000, Longest: 1000 * time.Hour})
			for range rapid.IntRange(2, 8).Draw(rt, "looks") {
				if _, err := p.State(t.Context(), time.Now()); err != nil {
					rt.Fatal(err)
				}
				c.Change(func(jobs []slurmtest.Job, nodes []slurmtest.Node) ([]slurmtest.Job, []slurmtest.Node) {
					for range rapid.IntRange(0, 4).Draw(rt, "changes") {
						id := rapid.IntRange(1, 9).Draw(rt, "id")
						state := rapid.SampledFrom([]string{"", "PENDING", "RUNNING", "COMPLETED"}).Draw(rt, "state")
						jobs = slices.DeleteFunc(jobs, func(j slurmtest.Job) bool { return j.ID == id })
						if state != "" {
							jobs = append(jobs, slurmtest.Job{ID: id, State: state, GPUs: 1})
						}
					}
					return jobs, nodes
				})
			}
			got, err := p.State(t.Context(), time.Now())
			if err != nil {
				rt.Fatal(err)
			}
			want, err := client.State(t.Context(), time.Now())
			if err != nil {
				rt.Fatal(err)
			}
			states := func(s State) (out []string) {
				for _, j := range s.Jobs {
					out = append(out, fmt.Sprint(j.ID, " ", j.State))
				}
				return out
			}
			if d := cmp.Diff(states(want), states(got)); d != "" {
				rt.Fatal(d)
			}
		})
	})
}
