package bridge_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/slurm"
	"unisched/slurm/slurmsim"
)

// chaos is a night in which everything happens: jobs of every behaviour, users who change their minds, nodes that go away, calls that fail in every
// way, and a daemon that dies now and then.
type chaos struct {
	*world
	rng    *rand.Rand
	serial int
	expect map[string]expectation
	quiet  bool // no more faults
	timer  bool // unisched release runs while the daemon is down
}

// expectation is what the user of a job expects of it in the end.
type expectation struct {
	state slurm.BaseState
	iters int64
	held  bool
	plain bool // not ours: never touched
	once  bool // may never be stopped: it cannot save, or could not come back
	whole bool // saves when it is asked: loses no iteration
}

func newChaos(t *testing.T, seed uint64) *chaos {
	rng := rand.New(rand.NewPCG(seed, 1))
	s := site{nodes: 2 + rng.IntN(4), gpus: []int{2, 4, 4, 8}[rng.IntN(4)], sim: slurmsim.Config{Seed: seed,
		LatencyMax: time.Duration(1+rng.IntN(15)) * time.Second, Completing: time.Duration(100+rng.IntN(20000)) * time.Millisecond}}
	if rng.IntN(3) == 0 {
		s.sim.SubmitDelay = -1
	}
	s.cfg = func(c *bridge.Config) {
		c.Unit, c.ProfileTime, c.Delay, c.CheckpointTimeout = 2*time.Minute, time.Minute, 2*time.Minute, time.Minute
	}
	c := &chaos{world: newWorld(t, s), rng: rng, expect: map[string]expectation{}}
	c.down = time.Duration(rng.IntN(90)) * time.Second // longer, and Slurm forgets what it should have put back
	if c.timer = rng.IntN(2) == 0; c.timer {
		c.down = time.Duration(rng.IntN(1800)) * time.Second
	}
	fault := func(after bool) func(int, string, slurm.JobID) error {
		return func(int, string, slurm.JobID) error {
			if c.quiet {
				return nil
			}
			switch k := rng.IntN(200); {
			case k == 0:
				panic(crash{})
			case k < 4:
				return slurmError(slurm.ErrUnknownOutcome, 0)
			case k < 7 && !after:
				return slurmError(slurm.ErrRefused, 2072)
			}
			return nil
		}
	}
	c.wire.before, c.wire.after = fault(false), fault(true)
	c.wire.state = func(s slurm.State) (slurm.State, error) {
		if !c.quiet && rng.IntN(60) == 0 {
			return slurm.State{}, slurmError(slurm.ErrUnavailable, 1800)
		}
		return s, nil
	}
	c.wire.job = func(slurm.JobID) error {
		if !c.quiet && rng.IntN(100) == 0 {
			return slurmError(slurm.ErrUnavailable, 1800)
		}
		return nil
	}
	return c
}

// someone submits a job.
func (c *chaos) someone() {
	r := c.rng
	c.serial++
	name := fmt.Sprint("job", c.serial)
	iters := int64(60 + r.IntN(1800))
	b := training(iters)
	b.Save, b.Resume = time.Duration(r.IntN(30))*time.Second, time.Duration(r.IntN(40))*time.Second
	b.SaveEvery = 50
	s := slurmsim.Submission{Body: b, TimeLimit: 24 * time.Hour, Nice: int64(r.IntN(3) * 10), Priority: int64(1 + r.IntN(5000)), User: "ann", UID: 1001}
	if r.IntN(2) == 0 {
		s.GPUs = 1 + r.IntN(4)
	} else {
		s.GPUsPerNode, s.Nodes = 1+r.IntN(2), 1+r.IntN(2)
		s.Tasks = s.GPUsPerNode * s.Nodes
	}
	e := expectation{state: slurm.StateCompleted, iters: iters}
	if r.IntN(5) > 0 {
		s.Comment = fmt.Sprintf("unisched:stop=iters:%d,ckpt=%s", iters, []string{"USR1", "B:USR1", "USR1", "none"}[r.IntN(4)])
		if r.IntN(2) == 0 {
			s.Comment += ",profile=skip"
		}
		switch r.IntN(4) {
		case 0:
			s.Comment += fmt.Sprintf(",class=strict,deadline=now+%ds", iters*2+600)
			s.TimeLimit = time.Duration(iters*3/2+60) * time.Second
		case 1:
			s.Comment += fmt.Sprintf(",class=soft,deadlines=now+%ds:100/now+%ds:50", iters*2, iters*4)
		}
		switch r.IntN(8) {
		case 0:
			s.Body.Trap = slurmsim.NoTrap
		case 1:
			s.Body.Trap = slurmsim.Ignores
		case 2:
			s.Body.Trap = slurmsim.RunsOn
		case 3:
			code := r.IntN(2)
			s.Body.Exit = &code
		case 4:
			s.Body.Silent = true
		}
		if r.IntN(8) == 0 && s.GPUsPerNode*s.Nodes+s.GPUs > 1 {
			s.Body.NeedGPUs = s.GPUsPerNode*s.Nodes + s.GPUs
		}
	}
	if r.IntN(12) == 0 {
		s.NoRequeue = true
	}
	if r.IntN(10) == 0 {
		s.Body.Fail = 3
		e.state = slurm.StateFailed
	}
	if strings.Contains(s.Comment, "class=strict") {
		s.TimeLimit *= 4 // a requeue starts the limit anew, a wrong guess must not end the job here
	}
	e.plain = s.Comment == ""
	e.once = e.plain || s.NoRequeue || strings.Contains(s.Comment, "ckpt=none") || s.Body.Silent && strings.Contains(s.Comment, "skip")
	e.whole = !e.once && !s.Body.Silent && s.Body.Trap == slurmsim.Saves && s.Body.Fail == 0
	c.submit(name, s)
	c.expect[name] = e
}

// meddle lets a user, an admin or fate do something.
func (c *chaos) meddle() {
	r := c.rng
	name := fmt.Sprint("job", 1+r.IntN(max(c.serial, 1)))
	j := c.job(name)
	e := c.expect[name]
	switch r.IntN(9) {
	case 0:
		if j.ID != 0 && !j.State.Finished() {
			c.sim.Cancel(j.ID)
			e.state = slurm.StateCancelled
			c.expect[name] = e
		}
	case 1:
		if j.State == slurm.StatePending && !j.Held && !j.HasFlag(slurm.FlagCompleting) {
			c.sim.Hold(j.ID)
			e.held = true
			c.expect[name] = e
		}
	case 2:
		node := fmt.Sprint("n", 1+r.IntN(2))
		c.sim.Drain(node, "chaos")
	case 3, 4:
		c.sim.Resume("n1")
		c.sim.Resume("n2")
	case 5:
		if c.b != nil {
			c.order(bridge.Order{Kind: []bridge.OrderKind{bridge.OrderPause, bridge.OrderResume, bridge.OrderResume}[r.IntN(3)]})
		}
	case 6:
		if c.b != nil && j.ID != 0 {
			c.order(bridge.Order{Kind: bridge.OrderRelease, Job: j.ID})
		}
	case 7: // a node takes long to clean up
		c.sim.SlowEpilog("n1", time.Duration(r.IntN(2)*(60+r.IntN(900)))*time.Second)
	}
}

func TestScenarioChaos(t *testing.T) {
	nights := 20
	if testing.Short() {
		nights = 3
	}
	if n, err := strconv.Atoi(os.Getenv("CHAOS_NIGHTS")); err == nil { // make soak
		nights = n
	}
	for seed := range nights {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			c := newChaos(t, uint64(seed))
			for c.sim.Now().Sub(slurmsim.Defaults().Start) < 3*time.Hour {
				if c.rng.IntN(20) == 0 && c.serial < 30 {
					c.someone()
				}
				if c.rng.IntN(30) == 0 {
					c.meddle()
				}
				c.profilesEnd()
				_ = c.step()
				if c.b == nil && c.timer && c.sim.Now().Second() == 0 { // the unit that runs while the daemon is down
					c.quiet = true
					c.releaseDead()
					c.quiet = false
				}
			}
			c.settle()
		})
	}
}

// profilesEnd fails when a job is kept in a profile run that it never asked for.
func (c *chaos) profilesEnd() {
	c.t.Helper()
	if c.b == nil {
		return
	}
	for _, v := range c.b.View().Jobs {
		if j := c.job(v.Name); j.State == slurm.StateRunning && j.Partition == "profile" && c.sim.Now().Sub(j.Start) > 20*time.Minute {
			c.t.Fatalf("%s (job %d) is in its profile since %s", v.Name, v.ID, j.Start.Format("15:04:05"))
		}
	}
}

// settle ends the chaos and looks whether everybody gets what they expect.
func (c *chaos) settle() {
	c.t.Helper()
	c.quiet = true
	c.sim.Resume("n1")
	c.sim.Resume("n2")
	c.run(c.down+time.Minute, nil)
	c.order(bridge.Order{Kind: bridge.OrderResume})
	c.run(10*time.Minute, nil)
	for name, e := range c.expect {
		j := c.job(name)
		if e.held && j.ID != 0 && j.State == slurm.StatePending {
			if !j.Held {
				c.t.Errorf("%s: the user's hold is gone", name)
			}
			c.sim.Release(j.ID)
		}
	}
	var names []string
	for n := range c.expect {
		names = append(names, n)
	}
	if !c.run(30*time.Hour, c.finished(names...)) {
		for _, n := range names {
			if j := c.job(n); j.ID != 0 && !j.State.Finished() {
				c.t.Errorf("%s does not end: %s, bridge: %s %q blocked %q", n, j.State, c.view(n).Phase, c.view(n).Why, c.view(n).Blocked)
			}
		}
		return
	}
	c.run(time.Minute, nil)
	last := map[slurm.JobID]string{}
	for _, e := range c.sim.History() {
		if strings.HasPrefix(e.What, "end") {
			last[e.Job] = strings.Fields(e.What)[1]
		}
	}
	starts := map[slurm.JobID]int{}
	for _, e := range c.sim.History() {
		if strings.HasPrefix(e.What, "start") {
			starts[e.Job]++
		}
	}
	for _, n := range names {
		e, id := c.expect[n], c.ids[n]
		if e.once && starts[id] > 1 {
			c.t.Errorf("%s (job %d) ran %d times although it may not be stopped", n, id, starts[id])
		}
		// While the daemon is dead nobody hears the first words of a profile run: it is brought back without being asked.
		unheard := slices.ContainsFunc(c.view(n).Events, func(e bridge.Event) bool { return strings.Contains(e.Text, "cannot be asked to leave") })
		if e.whole && !unheard && c.view(n).LostIters > 0 {
			c.t.Errorf("%s (job %d) lost %d iterations", n, id, c.view(n).LostIters)
		}
		if e.plain {
			for _, l := range c.wire.log {
				if strings.Contains(l, fmt.Sprintf(" %d ", id)) {
					c.t.Errorf("a plain job was touched: %s", l)
				}
			}
		}
		// A node that takes longer to clean up than Slurm remembers jobs leaves no time in which Slurm would take one back.
		forgotten := slices.ContainsFunc(c.view(n).Events, func(e bridge.Event) bool { return e.What == "rerun-failed" })
		if got := slurm.BaseState(last[c.ids[n]]); got != c.expect[n].state && !forgotten {
			c.t.Errorf("%s (job %d) ended %s, its user expects %s", n, c.ids[n], got, c.expect[n].state)
		}
	}
	c.clean()
}
