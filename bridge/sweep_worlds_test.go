//go:build sweep

package bridge_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/slurm"
	"unisched/slurm/slurmsim"
)

// setting is one world of the sweep.
type setting struct {
	name   string
	site   site
	down   time.Duration // how long no daemon runs after a crash
	limit  time.Duration
	lossy  bool // its job trains on after the checkpoint that it was asked for
	script []act
	// shows looks at the undisturbed run: the world must show what it is named after.
	shows func(s *stage) bool
}

// act is one line of a script. It is tried again in the next cycle when it returns false.
type act struct {
	at time.Duration
	do func(s *stage) bool
}

func submits(name string, sub slurmsim.Submission) func(*stage) bool {
	return func(s *stage) bool {
		s.submit(name, sub)
		s.submitted[name] = s.job(name)
		return true
	}
}

func orders(o bridge.OrderKind, name string) func(*stage) bool {
	return func(s *stage) bool {
		if s.b == nil {
			return false
		}
		s.order(bridge.Order{Kind: o, Job: s.ids[name]})
		return true
	}
}

func trained(iters int64, gpus int, class string, trap slurmsim.Trap) slurmsim.Submission {
	b := training(iters)
	b.Trap = trap
	return slurmsim.Submission{GPUsPerNode: gpus, Nodes: 1, Body: b, TimeLimit: 6 * time.Hour, Comment: fmt.Sprintf("unisched:%sckpt=B:USR1,profile=skip,stop=iters:%d", class, iters), Nice: 3}
}

func strictIn(d time.Duration) string {
	return fmt.Sprintf("class=strict,deadline=now+%ds,", int(d.Seconds()))
}

// small is the site of the sweep: one node of four GPUs, or n.
func small(n int, more func(*bridge.Config)) site {
	return site{nodes: n, gpus: 4, cfg: func(c *bridge.Config) {
		c.Unit, c.ProfileTime, c.Poll, c.Delay, c.CheckpointTimeout = 2*time.Minute, time.Minute, 10*time.Second, 2*time.Minute, time.Minute
		if more != nil {
			more(c)
		}
	}}
}

func preempted(names ...string) func(*stage) bool {
	return func(s *stage) bool {
		for _, n := range names {
			if s.view(n).Preemptions == 0 {
				return false
			}
		}
		return true
	}
}

func settings() []*setting {
	pair := []act{
		{0, submits("long", trained(500, 4, "", slurmsim.Saves))},
		{80 * time.Second, submits("strict", trained(150, 4, strictIn(8*time.Minute), slurmsim.Saves))},
		{100 * time.Second, submits("plain", slurmsim.Submission{GPUsPerNode: 2, Nodes: 1, Body: training(60), TimeLimit: 5 * time.Minute})},
	}
	wide := slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Tasks: 4, Body: training(300), Comment: "unisched:ckpt=B:USR1,stop=iters:300", Nice: 7}
	elastic := trained(900, 4, "", slurmsim.Saves)
	elastic.Comment = "unisched:ckpt=B:USR1,profile=skip,stop=iters:900,gpus=1-4"
	elastic.Body.Step = func(per []int) time.Duration { return 2 * time.Second / time.Duration(max(per[0], 1)) }
	unseen := small(1, nil)
	unseen.sim.SubmitDelay = -1
	slow := small(2, nil)
	slow.sim = slurmsim.Config{SubmitDelay: -1, LatencyMin: 10500 * time.Millisecond, LatencyMax: 13 * time.Second}
	spread := trained(200, 1, "", slurmsim.Saves)
	spread.Nodes, spread.Tasks, spread.Comment = 2, 2, "unisched:ckpt=B:USR1,gpus=1-2,batch=local,profile=skip,stop=iters:200"
	worlds := []*setting{
		{name: "preemption", site: small(1, nil), script: pair, shows: preempted("long")},
		{name: "preemption, down for 5 min", site: small(1, nil), down: 5 * time.Minute, script: pair, shows: preempted("long")},
		{name: "profile", site: small(1, nil), script: []act{
			{0, submits("wide", wide)},
			{20 * time.Second, submits("plain", slurmsim.Submission{GPUsPerNode: 1, Nodes: 1, Body: training(60), TimeLimit: 5 * time.Minute})},
		}, shows: func(s *stage) bool { return len(s.view("wide").Stays) >= 2 }},
		{name: "profile that runs on", site: small(1, nil), lossy: true, script: []act{
			{0, submits("wide", func() slurmsim.Submission { w := wide; w.Body.Trap = slurmsim.RunsOn; return w }())},
		}, shows: func(s *stage) bool { return len(s.view("wide").Stays) >= 2 }},
		{name: "move", site: small(2, nil), script: []act{
			{0, submits("a", trained(700, 2, "", slurmsim.Saves))},
			{0, submits("first", slurmsim.Submission{GPUsPerNode: 2, Nodes: 1, Body: training(60), TimeLimit: 5 * time.Minute})},
			{50 * time.Second, submits("b", trained(700, 2, "", slurmsim.Saves))},
			{150 * time.Second, submits("strict", trained(150, 4, strictIn(6*time.Minute), slurmsim.Saves))},
		}, shows: preempted("b")},
		{name: "elastic reshape", site: small(1, nil), script: []act{
			{0, submits("elastic", elastic)},
			{100 * time.Second, submits("strict", trained(200, 4, strictIn(6*time.Minute), slurmsim.Saves))},
		}, shows: func(s *stage) bool {
			v := s.view("elastic")
			return v.Preemptions > 0 && v.Stays[0].Placement.GPUs() != 4 // and it was submitted with 4
		}},
		{name: "fewer nodes, and Slurm starts it meanwhile", site: slow, script: []act{
			{0, submits("spread", spread)},
			{40 * time.Second, submits("second", spread)},
		}, shows: func(s *stage) bool {
			return len(s.view("spread").Stays) > 0 && len(s.view("spread").Stays[0].Placement) == 1 // and it was submitted with 2
		}},
		{name: "release", site: small(1, nil), script: append(pair[:3:3],
			act{110 * time.Second, orders(bridge.OrderRelease, "strict")}, act{130 * time.Second, orders(bridge.OrderRelease, "long")}),
			shows: func(s *stage) bool {
				return s.view("strict").Phase == bridge.Released || s.view("strict").Phase.Ended()
			}},
		{name: "pause", site: small(1, nil), script: append(pair[:3:3],
			act{150 * time.Second, orders(bridge.OrderPause, "")}, act{230 * time.Second, orders(bridge.OrderResume, "")}), shows: func(*stage) bool { return true }},
		{name: "delays that run out", site: small(1, nil), down: 20 * time.Minute, script: []act{
			{0, submits("long", trained(300, 4, "", slurmsim.Saves))},
			{10 * time.Second, submits("w1", trained(60, 4, "", slurmsim.Saves))},
			{10 * time.Second, submits("w2", trained(60, 4, "", slurmsim.Saves))},
		}, shows: func(*stage) bool { return true }},
		{name: "two jobs at once", site: small(2, nil), script: []act{
			{0, submits("long1", trained(500, 4, "", slurmsim.Saves))},
			{0, submits("long2", trained(500, 4, "", slurmsim.Saves))},
			{80 * time.Second, submits("strict1", trained(150, 4, strictIn(8*time.Minute), slurmsim.Saves))},
			{80 * time.Second, submits("strict2", trained(150, 4, strictIn(8*time.Minute), slurmsim.Saves))},
		}, shows: preempted("long1", "long2")},
		{name: "jobs that started unseen", site: unseen, down: 70 * time.Second, script: append([]act{
			{0, submits("stranger", trained(400, 2, "", slurmsim.Saves))},
		}, act{30 * time.Second, submits("other", trained(300, 2, "", slurmsim.Saves))},
			act{90 * time.Second, submits("strict", trained(150, 4, strictIn(8*time.Minute), slurmsim.Saves))}), shows: preempted("stranger")},
		{name: "saves and runs on", site: small(1, nil), lossy: true, script: []act{
			{0, submits("long", trained(500, 4, "", slurmsim.RunsOn))},
			{80 * time.Second, submits("strict", trained(150, 4, strictIn(8*time.Minute), slurmsim.Saves))},
		}, shows: preempted("long")},
		{name: "does not answer", site: small(1, nil), lossy: true, script: []act{
			{0, submits("long", trained(500, 4, "", slurmsim.Ignores))},
			{80 * time.Second, submits("strict", trained(150, 4, strictIn(8*time.Minute), slurmsim.Saves))},
		}, shows: func(s *stage) bool { return s.view("long").Strikes > 0 }},
		{name: "profile that does not answer", site: small(1, nil), lossy: true, script: []act{
			{0, submits("wide", func() slurmsim.Submission { w := wide; w.Body.Trap = slurmsim.Ignores; return w }())},
		}, shows: func(s *stage) bool { return len(s.view("wide").Stays) >= 2 }},
		{name: "standstill", site: small(1, nil), script: []act{
			{0, submits("long", trained(500, 4, "", slurmsim.Saves))},
			{80 * time.Second, submits("strict", trained(150, 4, strictIn(8*time.Minute), slurmsim.Saves))},
			{90 * time.Second, func(s *stage) bool { // as soon as it was signalled
				if j := s.job("long"); j.ID == 0 || j.State.Finished() {
					return true
				}
				if len(s.signals) == 0 {
					return false
				}
				s.sim.Cancel(s.ids["long"])
				s.expect["long"] = slurm.StateCancelled
				return true
			}},
			{300 * time.Second, submits("next", trained(100, 4, "", slurmsim.Saves))},
		}, shows: func(s *stage) bool { return s.b.View().Actions.Lost > 0 }},
	}
	for _, w := range worlds {
		w.limit = 5 * time.Hour
	}
	return worlds
}

// tally is what a sweep counts; contrib/sweep reads it.
type tally struct {
	Worlds, Effects, Calls int
	Points                 int // crashes, and late calls
	Faults                 int // calls refused or of unknown outcome
	Disk                   int // appends, syncs and renames that fail, and disks that are broken for a while
	People                 int
	Torn                   int      // byte positions
	Failed                 []string // points
	Stopped                bool     // before everything was played

	found  *atomic.Int64 // failures of all worlds
	enough func() bool
}

func (sum *tally) add(p *tally) {
	sum.Worlds, sum.Effects, sum.Calls, sum.Points = sum.Worlds+p.Worlds, sum.Effects+p.Effects, sum.Calls+p.Calls, sum.Points+p.Points
	sum.Faults, sum.Disk, sum.People, sum.Torn = sum.Faults+p.Faults, sum.Disk+p.Disk, sum.People+p.People, sum.Torn+p.Torn
	sum.Failed, sum.Stopped = append(sum.Failed, p.Failed...), sum.Stopped || p.Stopped
}

func TestSweep(t *testing.T) {
	most, _ := strconv.Atoi(os.Getenv("SWEEP_FAILURES"))
	sum, found := &tally{}, &atomic.Int64{}
	worlds := settings()
	if first := os.Getenv("SWEEP_FIRST"); first != "" { // where a mutant shows soonest
		slices.SortStableFunc(worlds, func(x, y *setting) int { return cmp.Compare(btoi(y.name == first), btoi(x.name == first)) })
	}
	parts := make([]*tally, len(worlds))
	t.Run("in", func(t *testing.T) { // returns when all have ended
		for i, set := range worlds {
			t.Run(set.name, func(t *testing.T) {
				t.Parallel()
				parts[i] = &tally{enough: func() bool { return most > 0 && found.Load() >= int64(most) }, found: found}
				if parts[i].Stopped = most > 0 && found.Load() > 0; !parts[i].Stopped { // of a mutant one world is enough that tells it
					parts[i].sweep(t, set)
				}
			})
		}
	})
	for _, p := range parts {
		if p != nil { // all, unless -run chose some
			sum.add(p)
		}
	}
	sum.Stopped = sum.Stopped || most > 0 && len(sum.Failed) >= most
	t.Logf("%d worlds, %d effects (%d calls), %d crash points, %d failed calls, %d failures of the disk, %d interventions, %d torn bytes: %d failures", sum.Worlds, sum.Effects, sum.Calls, sum.Points, sum.Faults, sum.Disk,
		sum.People, sum.Torn, len(sum.Failed))
	if out := os.Getenv("SWEEP_OUT"); out != "" {
		b, err := json.Marshal(sum)
		if err == nil {
			err = os.WriteFile(out, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// sweep plays one world in every way.
func (sum *tally) sweep(t *testing.T, set *setting) {
	var log []seenEffect
	ok := sum.one(t, set, way{}, func(s *stage) {
		log = s.log
		sum.Worlds, sum.Effects, sum.Torn = sum.Worlds+1, sum.Effects+len(log), sum.Torn+s.torn
		if !s.t.Failed() && !set.shows(s) {
			s.t.Errorf("the world does not show what it is named after")
		}
	})
	if !ok {
		return // its points would say the same again
	}
	for i, e := range log {
		ways := e.ways
		if e.job != 0 {
			sum.Calls++
			for _, m := range []string{"cancelled", "held by its user", "its hold is taken off", "requeued by its user", "requeued, and running again", "its id is another's",
				"4 s pass", "a second daemon", "a look without nodes", "a look at half the nodes", "an old look"} {
				ways = append(ways, way{effect: i + 1, mode: m, cycle: e.cycle, job: e.job})
			}
			switch {
			case e.what == "requeue":
				ways = append(ways, way{effect: i + 1, mode: "ends within"})
			case strings.Contains(e.what, " req=") || strings.Contains(e.what, " nodes="):
				ways = append(ways, way{effect: i + 1, mode: startsWithin})
			}
		}
		for _, p := range ways {
			switch {
			case p.mode == "late" && set.down > 0:
				continue // no call is under way for so long
			case p.cycle > 0 || p.mode == "ends within" || p.mode == startsWithin:
				sum.People++
			case p.mode == "before" || p.mode == "after" || p.mode == "late":
				sum.Points++
			case strings.HasPrefix(p.mode, "disk "):
				sum.Disk++
			default:
				sum.Faults++
			}
			if sum.one(t, set, p, nil); sum.enough() {
				return
			}
		}
	}
}

func (sum *tally) one(t *testing.T, set *setting, p way, look func(*stage)) bool {
	name := p.String()
	if p == (way{}) {
		name = "undisturbed"
	}
	ok := t.Run(name, func(t *testing.T) {
		s := newStage(t, set, p)
		s.play()
		if look != nil {
			look(s)
		}
	})
	if !ok {
		sum.Failed = append(sum.Failed, set.name+"/"+name)
		sum.found.Add(1)
		fmt.Fprintln(os.Stderr, "FAILS:", sum.Failed[len(sum.Failed)-1]) // the test itself says so when all is over
	}
	return ok
}
