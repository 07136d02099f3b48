package bridge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"unisched/bridge"
	"unisched/bridge/journal"
	"unisched/hooks/progress"
	"unisched/planner/lease"
	"unisched/slurm"
	"unisched/slurm/slurmsim"
)

// memory is a journal in memory: the last entry of each kind and key holds.
type memory struct {
	entries []journal.Entry
	fail    error
}

func (m *memory) Append(entries ...journal.Entry) error {
	if m.fail != nil {
		return m.fail
	}
	for _, e := range entries {
		e, err := e.Encoded()
		if err != nil {
			return err
		}
		m.entries = append(m.entries, e)
	}
	return nil
}

func (m *memory) Compact(entries []journal.Entry) error {
	if m.fail != nil {
		return m.fail
	}
	m.entries = nil
	return m.Append(entries...)
}
func (m *memory) Size() int64 { return int64(len(m.entries)) }

func (m *memory) latest() []journal.Entry {
	at := map[string]int{}
	var out []journal.Entry
	for _, e := range m.entries {
		if e.Key == "" {
			continue
		}
		if i, ok := at[e.Kind+"/"+e.Key]; ok {
			out[i] = e
			continue
		}
		at[e.Kind+"/"+e.Key] = len(out)
		out = append(out, e)
	}
	return slices.DeleteFunc(out, func(e journal.Entry) bool { return len(e.Data) == 0 || string(e.Data) == "null" })
}

// wire stands between the bridge and the cluster: it counts the writes and lets faults happen.
type wire struct {
	*slurmsim.Cluster
	writes int
	log    []string
	// before and after are asked around each write; an error from before keeps it from happening, one from after is returned although it happened.
	before, after func(n int, op string, id slurm.JobID) error
	// state replaces what State shows.
	state func(slurm.State) (slurm.State, error)
	job   func(slurm.JobID) error
}

func (w *wire) State(ctx context.Context, now time.Time) (slurm.State, error) {
	s, err := w.Cluster.State(ctx, now)
	if w.state != nil && err == nil {
		return w.state(s)
	}
	return s, err
}

func (w *wire) Job(ctx context.Context, id slurm.JobID) (slurm.Job, error) {
	if w.job != nil {
		if err := w.job(id); err != nil {
			return slurm.Job{}, err
		}
	}
	return w.Cluster.Job(ctx, id)
}

func (w *wire) write(op string, id slurm.JobID, detail string, do func() error) error {
	w.writes++
	n := w.writes
	if w.before != nil {
		if err := w.before(n, op, id); err != nil {
			return err
		}
	}
	err := do()
	line := fmt.Sprintf("%s %d %s%s", w.Now().Format("15:04:05"), id, op, detail)
	if err != nil {
		line += ": " + err.Error()
	}
	w.log = append(w.log, line)
	if err == nil && w.after != nil {
		err = w.after(n, op, id)
	}
	return err
}

func (w *wire) Update(ctx context.Context, ref slurm.Ref, u slurm.Update) error {
	return w.write("update", ref.ID, updateText(u), func() error { return w.Cluster.Update(ctx, ref, u) })
}

func (w *wire) Signal(ctx context.Context, ref slurm.Ref, s slurm.Signal) error {
	return w.write("signal", ref.ID, "", func() error { return w.Cluster.Signal(ctx, ref, s) })
}

func (w *wire) Requeue(ctx context.Context, ref slurm.Ref) error {
	return w.write("requeue", ref.ID, "", func() error { return w.Cluster.Requeue(ctx, ref) })
}

func (w *wire) Rerun(ctx context.Context, ref slurm.Ref) error {
	return w.write("rerun", ref.ID, "", func() error { return w.Cluster.Rerun(ctx, ref) })
}

func (w *wire) ClearRequiredNodes(ctx context.Context, ref slurm.Ref, tasks int) error {
	return w.write("unpin", ref.ID, "", func() error { return w.Cluster.ClearRequiredNodes(ctx, ref, tasks) })
}

func updateText(u slurm.Update) string {
	var b strings.Builder
	add := func(set bool, format string, v any) {
		if set {
			fmt.Fprintf(&b, " "+format, v)
		}
	}
	add(u.Hold.Set, "hold=%v", u.Hold.Value)
	add(u.BeginTime.Set, "begin=%s", u.BeginTime.Value.Format("15:04:05"))
	add(u.Nice.Set, "nice=%d", u.Nice.Value)
	add(u.RequiredNodes != nil, "req=%v", u.RequiredNodes)
	add(u.Nodes.Set, "nodes=%d", u.Nodes.Value)
	add(u.Tasks.Set, "tasks=%d", u.Tasks.Value)
	add(u.TRESPerNode.Set, "per-node=%q", u.TRESPerNode.Value)
	add(u.TRESPerJob.Set, "per-job=%q", u.TRESPerJob.Value)
	add(u.Partition.Set, "partition=%s", u.Partition.Value)
	return b.String()
}

// crash is what a write panics with to kill the bridge in the middle of a cycle.
type crash struct{ n int }

// world is one cluster with a bridge in virtual time.
type world struct {
	t     *testing.T
	cfg   bridge.Config
	sim   *slurmsim.Cluster
	wire  *wire
	mem   *memory
	b     *bridge.Bridge // nil: no daemon runs
	notes []bridge.Note
	ids   map[string]slurm.JobID
	nice  map[string]int64 // as submitted
	down  time.Duration    // time for which the daemon stays down after a crash
	upAt  time.Time
	boot  func() *bridge.Bridge // when set, replaces open; nil: it cannot start
	eye   *eye                  // nil: no node measures its GPUs
	// late is how long the nodes' lines take to arrive.
	late    time.Duration
	onTheir []onTheWay
	// rivals says that other daemons are at work too.
	rivals bool
}

// site is what a scenario may change of the usual world: three nodes of four GPUs, partitions gpu and profile, all classes managed.
type site struct {
	nodes, gpus int
	sim         slurmsim.Config
	cfg         func(*bridge.Config)
	parts       []slurmsim.Partition
	eye         *eye
}

func newWorld(t *testing.T, s site) *world {
	t.Helper()
	if s.nodes == 0 {
		s.nodes, s.gpus = 3, 4
	}
	cfg := bridge.Defaults()
	cfg.Stage = bridge.StageStrict
	if s.cfg != nil {
		s.cfg(&cfg)
	}
	if s.sim.SubmitDelay == 0 {
		s.sim.SubmitDelay = 3 * time.Minute // below 0: no plugin
	}
	if s.parts == nil {
		s.parts = []slurmsim.Partition{{Name: "gpu"}, {Name: "profile", MaxNodes: 2, MaxGPUs: 2}}
	}
	sim := slurmsim.New(s.sim, slurmsim.Nodes(s.nodes, s.gpus), s.parts...)
	w := &world{t: t, cfg: cfg, sim: sim, wire: &wire{Cluster: sim}, mem: &memory{}, ids: map[string]slurm.JobID{}, nice: map[string]int64{}, eye: s.eye}
	w.open()
	t.Cleanup(func() {
		if t.Failed() && os.Getenv("SWEEP_QUIET") == "" {
			w.dump()
		}
	})
	return w
}

// open starts the daemon from its journal.
func (w *world) open() {
	w.t.Helper()
	if w.boot != nil {
		w.b = w.boot()
		return
	}
	parts := bridge.Parts{
		Cluster: w.wire, Policy: lease.New(lease.Config{}, nil), Memory: w.mem, Reports: w.reports,
		Log: func(_ time.Time, n bridge.Note) { w.notes = append(w.notes, n) },
	}
	if w.eye != nil {
		w.eye.w, w.wire.state, parts.GPULooks = w, w.eye.numbered, w.eye.looks
	}
	b, err := bridge.New(w.cfg, parts, bridge.Restored{Entries: w.mem.latest()})
	if err != nil {
		w.t.Fatalf("open the bridge: %v", err)
	}
	w.b = b
}

// onTheWay is what the nodes sent at a time.
type onTheWay struct {
	at      time.Time
	reports []progress.JobReport
}

// reports are those that have arrived.
func (w *world) reports() []progress.JobReport {
	w.onTheir = append(w.onTheir, onTheWay{w.sim.Now(), w.sim.Reports()})
	var out []progress.JobReport
	for len(w.onTheir) > 0 && w.sim.Now().Sub(w.onTheir[0].at) >= w.late {
		out = append(out, w.onTheir[0].reports...)
		w.onTheir = w.onTheir[1:]
	}
	return out
}

// step is one cycle; a crash in it takes the daemon down for w.down (at least a poll).
func (w *world) step() (err error) {
	w.t.Helper()
	w.sim.Advance(w.sim.Now().Add(w.cfg.Poll))
	defer func() {
		if c := recover(); c != nil {
			if _, ok := c.(crash); !ok {
				panic(c)
			}
			w.b, w.upAt = nil, w.sim.Now().Add(w.down)
		}
		w.check()
	}()
	if w.b == nil {
		if w.sim.Now().Before(w.upAt) {
			return nil
		}
		if w.open(); w.b == nil {
			return nil
		}
	}
	return w.b.Step(context.Background(), w.sim.Now())
}

// check holds after every cycle.
func (w *world) check() {
	w.t.Helper()
	if err := w.sim.Check(); err != nil {
		w.t.Fatal(err)
	}
	if w.b == nil {
		return
	}
	for _, j := range w.b.View().Jobs {
		for _, e := range j.Events {
			if e.What == "foreign-start" && !w.rivals {
				w.t.Fatalf("job %d: taken for a start of another daemon: %s at %s", j.ID, e.Text, e.At.Format("15:04:05"))
			}
			if e.What == "illegal-step" {
				w.t.Fatalf("job %d: illegal step %s at %s", j.ID, e.Text, e.At.Format("15:04:05"))
			}
		}
	}
}

// run makes steps until done says so or the time is over.
func (w *world) run(limit time.Duration, done func() bool) bool {
	w.t.Helper()
	for end := w.sim.Now().Add(limit); w.sim.Now().Before(end); {
		if err := w.step(); err != nil && !strings.Contains(err.Error(), "look at Slurm") {
			w.t.Fatalf("step at %s: %v", w.sim.Now().Format("15:04:05"), err)
		}
		if done != nil && done() {
			return true
		}
	}
	return done == nil
}

// until is run, and a failure when done does not come.
func (w *world) until(limit time.Duration, what string, done func() bool) {
	w.t.Helper()
	if !w.run(limit, done) {
		w.t.Fatalf("%s: not within %v", what, limit)
	}
}

// submit hands in a job under a name of this test.
func (w *world) submit(name string, s slurmsim.Submission) slurm.JobID {
	s.Name = name
	if s.User == "" {
		s.User, s.UID = "ann", 1001
	}
	if s.TimeLimit == 0 {
		s.TimeLimit = 24 * time.Hour
	}
	id := w.sim.Submit(s)
	w.ids[name], w.nice[name] = id, s.Nice
	return id
}

// job is what Slurm shows, or a zero job when it has forgotten it.
func (w *world) job(name string) slurm.Job {
	j, err := w.sim.Job(context.Background(), w.ids[name])
	if err != nil {
		return slurm.Job{}
	}
	return j
}

// view is what the bridge shows.
func (w *world) view(name string) bridge.JobView {
	if w.b != nil {
		for _, v := range slices.Backward(w.b.View().Jobs) {
			if v.ID == w.ids[name] {
				return v
			}
		}
	}
	return bridge.JobView{}
}

func (w *world) running(name string) bool {
	j := w.job(name)
	return j.State == slurm.StateRunning && !j.HasFlag(slurm.FlagCompleting)
}

func (w *world) finished(names ...string) func() bool {
	return func() bool {
		for _, n := range names {
			if j := w.job(n); j.ID != 0 && !j.State.Finished() {
				return false
			}
		}
		return true
	}
}

// iter is the last iteration that the bridge has seen of a job.
func (w *world) reached(name string, n int64) func() bool {
	return func() bool { return w.view(name).Iter >= n }
}

// plain fails when a job is not as its user submitted it.
func (w *world) plain(name string, want slurm.Job) {
	w.t.Helper()
	got := w.job(name)
	type form struct {
		Partition, PerNode, PerJob string
		Nodes, Tasks               int
		Nice                       int64
		Held                       bool
		Required                   string
	}
	of := func(j slurm.Job) form {
		return form{j.Partition, j.Request.TRESPerNode, j.Request.TRESPerJob, j.Request.Nodes.Min, j.Request.Tasks, j.Nice, j.Held, strings.Join(j.Request.RequiredNodes, ",")}
	}
	if g, x := of(got), of(want); g != x {
		w.t.Errorf("job %s is not as submitted:\n got %+v\nwant %+v", name, g, x)
	}
}

// clean fails when anything of ours is left on a job that Slurm still knows.
func (w *world) clean() {
	w.t.Helper()
	for name, id := range w.ids {
		j := w.job(name)
		if j.ID == 0 || j.State.Finished() {
			continue
		}
		if j.Held || len(j.Request.RequiredNodes) > 0 && j.State == slurm.StatePending || j.Nice != w.nice[name] || j.Begin.After(w.sim.Now()) {
			w.t.Errorf("job %s (%d): left %s held=%v pinned=%v nice=%d begin=%v", name, id, j.State, j.Held, j.Request.RequiredNodes, j.Nice, j.Begin)
		}
	}
	if w.b != nil {
		for _, v := range w.b.View().Jobs {
			if v.Phase.Ended() && v.Changed.Hold {
				w.t.Errorf("job %d: ended, and the bridge still thinks it holds it", v.ID)
			}
		}
	}
}

// dump writes everything that helps to understand a failure.
func (w *world) dump() {
	var b strings.Builder
	for _, e := range w.sim.History() {
		fmt.Fprintln(&b, e)
	}
	fmt.Fprintln(&b, "--- writes")
	for _, l := range w.wire.log {
		fmt.Fprintln(&b, l)
	}
	fmt.Fprintln(&b, "--- jobs at", w.sim.Now().Format("15:04:05"))
	s, _ := w.sim.State(context.Background(), w.sim.Now())
	for _, j := range s.Jobs {
		fmt.Fprintf(&b, "%d %s %s%v reason=%q held=%v prio=%d nice=%d restarts=%d begin=%s req=%v part=%s\n", j.ID, j.Name, j.State, j.Flags, j.Reason, j.Held,
			j.Priority, j.Nice, j.Restarts, j.Begin.Format("15:04:05"), j.Request.RequiredNodes, j.Partition)
	}
	if w.b != nil {
		for _, v := range w.b.View().Jobs {
			fmt.Fprintf(&b, "%d %s phase=%s why=%q blocked=%q target=%s %s iter=%d saved=%d\n", v.ID, v.Name, v.Phase, v.Why, v.Blocked, v.Target.Decision, v.Target.Reason.Text,
				v.Iter, v.SavedIter)
			for _, e := range v.Events {
				fmt.Fprintf(&b, "    %s run %d %s %s\n", e.At.Format("15:04:05"), e.Run, e.What, e.Text)
			}
		}
	}
	text := b.String()
	if len(text) > 400000 {
		text = text[:200000] + "\n...\n" + text[len(text)-200000:]
	}
	w.t.Log("\n" + text)
}

var _ = json.Marshal
