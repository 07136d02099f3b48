package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/contrib/testcluster"
	"unisched/slurm"
	"unisched/slurm/slurmsim"
)

// The contract: the same script of calls, made to a real slurmctld and to slurmsim, leaves the same trace. Where they differ, slurmsim is wrong.
//
// A trace is what was seen of each job in each scene of the script: its states in order, and where it stood at the end, with reason, hold, restarts and
// placement. Times are left out, and what is seen only in passing: COMPLETING, and how a job waited before it started in the same scene.

// stage is a cluster that the script is played on.
type stage interface {
	State(ctx context.Context, now time.Time) (slurm.State, error)
	Update(ctx context.Context, ref slurm.Ref, u slurm.Update) error
	Signal(ctx context.Context, ref slurm.Ref, s slurm.Signal) error
	Requeue(ctx context.Context, ref slurm.Ref) error
	Rerun(ctx context.Context, ref slurm.Ref) error
	ClearRequiredNodes(ctx context.Context, ref slurm.Ref, tasks int) error

	// What people do.
	submit(j asked) (slurm.JobID, error)
	people(what string, args ...string) error
	// pass lets a little time go by.
	pass()
	now() time.Time
}

// asked is a job to be submitted.
type asked struct {
	name                        string
	gpus, perNode, nodes, tasks int
	minutes                     int // time limit, 0: ten minutes; below 0: none
	begin                       time.Duration
	hold, noTrap, noRequeue     bool
	nice                        int64
	after                       slurm.JobID
	seconds                     int // how long it runs, 0: for ever
	exit                        int
	partition                   string
}

// play is one playing of the script.
type play struct {
	t     *testing.T
	ctx   context.Context
	on    stage
	trace []string
	ids   map[string]slurm.JobID
	names map[slurm.JobID]string
	seen  map[string][]string // of this scene
	lasts map[string]string   // the last line of each scene and job
	// hints are the lasts of another stage: a scene may end when they are reached. nil: wait for the time given.
	hints   map[string]string
	chapter string
	scene   int
}

// tick is the time between two looks, stride that of virtual time.
const tick = 200 * time.Millisecond

func (p *play) submit(j asked) {
	p.t.Helper()
	id, err := p.on.submit(j)
	if err != nil {
		p.t.Fatalf("%s: submit %s: %v", p.chapter, j.name, err)
	}
	p.ids[j.name], p.names[id] = id, j.name
}

func (p *play) update(name string, u slurm.Update) {
	p.t.Helper()
	p.result(name, p.on.Update(p.ctx, p.ids[name].Ref(), u))
}

// result writes down whether a call was refused, and with which code.
func (p *play) result(name string, err error) {
	line := fmt.Sprintf("%s: call to %s: ", p.where(), name)
	e, ok := err.(*slurm.Error)
	switch {
	case err == nil:
		line += "done"
	case ok:
		line += fmt.Sprintf("%v %d", e.Kind, e.Code)
	default:
		line += err.Error()
	}
	p.trace = append(p.trace, line)
}

func (p *play) people(what string, args ...string) {
	p.t.Helper()
	if err := p.on.people(what, args...); err != nil {
		p.t.Errorf("%s: %s %v: %v", p.where(), what, args, err) // what follows shows in the trace
	}
}

func (p *play) cancel(names ...string) {
	for _, n := range names {
		p.people("cancel", p.ids[n].String())
	}
}

// look notes what is seen of each job now.
func (p *play) look() {
	p.t.Helper()
	s, err := p.on.State(p.ctx, p.on.now())
	if err != nil {
		p.t.Fatalf("%s: %v", p.chapter, err)
	}
	for _, j := range s.Jobs {
		name, ok := p.names[j.ID]
		if !ok || j.HasFlag(slurm.FlagCompleting) {
			continue
		}
		line := show(j)
		if seen := p.seen[name]; len(seen) == 0 || seen[len(seen)-1] != line {
			p.seen[name] = append(seen, line)
		}
	}
}

func show(j slurm.Job) string {
	reason := strings.ReplaceAll(j.Reason, " ", "_")
	reason, _, _ = strings.Cut(reason, ",") // ReqNodeNotAvail,_UnavailableNodes:n1
	if reason == "None" {
		reason = ""
	}
	line := fmt.Sprintf("%s restarts %d", j.State, j.Restarts)
	switch {
	case j.State == slurm.StatePending:
		line += fmt.Sprintf(" %q held %v", reason, j.Held)
	case j.State.Finished():
		line += fmt.Sprintf(" exit %d signal %d %q", j.ExitCode, j.ExitSignal, reason)
	default:
		var on []string
		for _, g := range j.NodeGPUs {
			on = append(on, g.Node+":"+strconv.Itoa(g.Count))
		}
		slices.Sort(on)
		line += " on " + strings.Join(on, " ")
	}
	return line
}

// until lets time go by until all jobs stand where hints say, at least and at most for so long; without hints for the whole time. That is a scene: what
// was seen of each job in it joins the trace.
func (p *play) until(least, most time.Duration) {
	p.t.Helper()
	p.scene++
	p.seen = map[string][]string{}
	began := p.on.now()
	for {
		p.on.pass()
		p.look()
		took := p.on.now().Sub(began)
		if took >= most || took >= least && p.hints != nil && p.reached() {
			break
		}
	}
	for _, name := range slices.Sorted(keysOf(p.seen)) {
		var kept []string
		for i, line := range p.seen[name] {
			// How it waited before it stood otherwise is passing, and so is a run whose launch fails, which may be over before anybody looks.
			last := i+1 == len(p.seen[name])
			if last || !strings.HasPrefix(line, "PENDING") && p.chapter != "launch fails" {
				kept = append(kept, line)
			}
		}
		p.lasts[p.key(name)] = kept[len(kept)-1]
		p.trace = append(p.trace, fmt.Sprintf("%s: %s: %s", p.where(), name, strings.Join(kept, " -> ")))
	}
}

func (p *play) where() string          { return fmt.Sprintf("%s %d", p.chapter, p.scene) }
func (p *play) key(name string) string { return p.where() + "/" + name }

func (p *play) reached() bool {
	for name := range p.ids {
		if want, ok := p.hints[p.key(name)]; ok {
			if seen := p.seen[name]; len(seen) == 0 || seen[len(seen)-1] != want {
				return false
			}
		}
	}
	return true
}

func keysOf[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// parts is in how many pieces the script is played side by side, since most of its time is waiting.
const parts = 3

// perform plays the chapters of one part of the script on a stage. lasts is where each job stood at the end of each scene, as hints for another stage.
func perform(t *testing.T, on stage, part int, hints map[string]string) (trace []string, lasts map[string]string) {
	t.Helper()
	p := &play{t: t, ctx: t.Context(), on: on, ids: map[string]slurm.JobID{}, names: map[slurm.JobID]string{}, hints: hints, lasts: map[string]string{}}
	for i, c := range script {
		if i%parts != part {
			continue
		}
		p.chapter, p.scene = c.name, 0
		began := time.Now()
		c.play(p)
		p.clear()
		t.Logf("%s: %v", c.name, time.Since(began).Round(time.Millisecond))
	}
	return p.trace, p.lasts
}

// clear cancels what is left and waits until the nodes are free.
func (p *play) clear() {
	p.t.Helper()
	s, err := p.on.State(p.ctx, p.on.now())
	if err != nil {
		p.t.Fatal(err)
	}
	var left []string
	for _, j := range s.Jobs {
		if !j.State.Finished() {
			left = append(left, j.ID.String())
		}
	}
	if len(left) > 0 {
		p.people("cancel", left...)
	}
	for range 100 {
		p.on.pass()
		s, err := p.on.State(p.ctx, p.on.now())
		if err != nil {
			p.t.Fatal(err)
		}
		if !slices.ContainsFunc(s.Jobs, func(j slurm.Job) bool { return !j.State.Finished() || j.HasFlag(slurm.FlagCompleting) }) {
			p.ids, p.names = map[string]slurm.JobID{}, map[slurm.JobID]string{}
			return
		}
	}
	p.t.Fatalf("%s: the nodes do not get free", p.chapter)
}

// TestContract plays the script on slurmsim first, whose trace tells how long each scene has to be waited for, and then on the real thing.
func TestContract(t *testing.T) {
	version := os.Getenv("UNISCHED_E2E")
	if version == "" {
		t.Skip("end-to-end test: run make test-e2e")
	}
	for part := range parts {
		t.Run(fmt.Sprint("part ", part+1), func(t *testing.T) {
			t.Parallel()
			want, hints := perform(t, newSimStage(), part, nil)
			c := testcluster.Start(t, testcluster.Options{Slurm: version, Nodes: 3, GPUsPerNode: 4})
			client, err := slurm.New(slurm.Options{URL: c.RestURL, TokenFile: c.TokenFile, Scontrol: slurm.Scontrol{Argv: c.Scontrol}})
			if err != nil {
				t.Fatal(err)
			}
			got, _ := perform(t, &realStage{Client: client, c: c}, part, hints)
			if d := cmp.Diff(got, want); d != "" {
				t.Errorf("slurmsim (+) is not as the real cluster (-):\n%s", d)
			}
		})
	}
}

// simStage is slurmsim with the figures of the test cluster.
type simStage struct{ *slurmsim.Cluster }

func newSimStage() simStage {
	return simStage{slurmsim.New(slurmsim.Config{SchedInterval: 5 * time.Second, BackfillInterval: 5 * time.Second, LatencyMin: 50 * time.Millisecond, LatencyMax: time.Second},
		slurmsim.Nodes(3, 4), slurmsim.Partition{Name: "gpu", MaxTime: 7 * 24 * time.Hour}, slurmsim.Partition{Name: "profile", MaxNodes: 2, MaxGPUs: 2, MaxTime: time.Hour})}
}

func (s simStage) now() time.Time { return s.Now() }
func (s simStage) pass()          { s.Advance(s.Now().Add(tick)) }

func (s simStage) submit(j asked) (slurm.JobID, error) {
	body := slurmsim.Body{Iterations: int64(j.seconds), Save: time.Second, Fail: j.exit}
	if j.seconds == 0 {
		body.Iterations = 1e6
	}
	if j.noTrap {
		body.Trap = slurmsim.NoTrap
	}
	sub := slurmsim.Submission{Name: j.name, User: "alice", UID: 1001, Partition: j.partition, GPUs: j.gpus, GPUsPerNode: j.perNode, Nodes: j.nodes, Tasks: j.tasks,
		Hold: j.hold, NoRequeue: j.noRequeue, Nice: j.nice, Priority: 10000, After: j.after, TimeLimit: time.Duration(j.minutes) * time.Minute, Body: body}
	if j.minutes == 0 {
		sub.TimeLimit = 10 * time.Minute
	}
	if j.begin > 0 {
		sub.Begin = s.Now().Add(j.begin)
	}
	return s.Submit(sub), nil
}

func (s simStage) people(what string, args ...string) error {
	id := func(text string) slurm.JobID {
		n, _ := strconv.Atoi(text)
		return slurm.JobID(n)
	}
	switch what {
	case "cancel":
		for _, a := range args {
			s.Cancel(id(a))
		}
	case "hold":
		s.Hold(id(args[0]))
	case "drain":
		s.Drain(args[0], "test")
	case "resume":
		s.Resume(args[0])
	case "break":
		s.FailLaunches(args[0], 1)
	case "mend":
		s.FailLaunches(args[0], 0)
		s.Resume(args[0])
	case "reserve":
		s.Reserve(slurm.Reservation{Name: "maint", Nodes: strings.Split(args[0], ","), Start: s.Now().Add(time.Hour), End: s.Now().Add(2 * time.Hour)})
	case "unreserve":
		s.Unreserve("maint")
	default:
		return fmt.Errorf("no such thing: %s", what)
	}
	return nil
}

// TestContractScript plays the script on slurmsim alone, twice: it needs no cluster, and equal scripts leave equal traces.
func TestContractScript(t *testing.T) {
	for part := range parts {
		first, hints := perform(t, newSimStage(), part, nil)
		second, _ := perform(t, newSimStage(), part, hints)
		if d := cmp.Diff(first, second); d != "" {
			t.Errorf("a second time, with the hints of the first:\n%s", d)
		}
		for _, line := range first {
			t.Log(line)
		}
	}
}
