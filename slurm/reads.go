package slurm

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Version is the REST version in use. The first call, and the first after the
// server was away, asks the server for the best one that both sides know.
func (c *Client) Version(ctx context.Context) (string, error) { return c.versionOf(ctx, c.end()) }

func (c *Client) versionOf(ctx context.Context, e *endpoint) (string, error) {
	c.mu.Lock()
	version := e.version
	c.mu.Unlock()
	if version != "" {
		return version, nil
	}
	for _, v := range Versions {
		_, err := c.send(ctx, e, v, c.pingCall())
		if isMissingPath(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		c.mu.Lock()
		e.version = v
		c.mu.Unlock()
		return v, nil
	}
	return "", &Error{Kind: ErrBadAnswer, Op: "discover version",
		Msg: "the server knows none of " + strings.Join(Versions, ", ")}
}

// forget makes the next call discover the version again.
func (c *Client) forget(e *endpoint) {
	c.mu.Lock()
	e.version = c.opts.Version
	c.mu.Unlock()
}

func (c *Client) pingCall() call {
	return call{op: "ping", method: "GET", path: "/ping/", timeout: c.opts.Timeouts.Ping}
}

// Pong is what a ping found out.
type Pong struct {
	API, Release, Cluster string
	// Controllers are the slurmctlds that slurmrestd asked, the primary first as a rule.
	Controllers []Controller
}

// Controller is one slurmctld. Backup says that it stands by for another one.
type Controller struct {
	Host       string
	Up, Backup bool
}

const maxControllers = 64

func readControllers(f raw) []Controller {
	var pings []raw
	_ = json.Unmarshal(f, &pings)
	var out []Controller
	for _, p := range pings[:min(len(pings), maxControllers)] {
		r := &record{}
		up := strings.EqualFold(r.text("", dig(p, "pinged")), "UP") || r.boolean("", dig(p, "responding"))
		out = append(out, Controller{Host: r.text("", dig(p, "hostname")), Up: up, Backup: strings.HasPrefix(r.text("", dig(p, "mode")), "backup")})
	}
	return out
}

func anyUp(all []Controller) bool {
	return slices.ContainsFunc(all, func(c Controller) bool { return c.Up })
}

func noController() error {
	return &Error{Kind: ErrUnavailable, Op: "ping", HTTP: 200, Msg: "no controller is up"}
}

// Ping asks slurmrestd whether a controller answers it, the primary or a
// backup that took over; ErrUnavailable when none does.
func (c *Client) Ping(ctx context.Context) (Pong, error) {
	a, err := c.do(ctx, c.pingCall())
	if err != nil {
		return Pong{}, err
	}
	pong := Pong{Release: a.release, Cluster: a.cluster, Controllers: readControllers(a.rest["pings"])}
	e := c.end()
	pong.API, err = c.versionOf(ctx, e)
	if err != nil {
		return Pong{}, err
	}
	if anyUp(pong.Controllers) {
		return pong, nil
	}
	c.forget(e)
	c.leave(e)
	return pong, noController()
}

// tally counts what could not be understood.
type tally map[string]int

func (t tally) add(kind string, ok bool, odd []string) {
	if !ok {
		t[kind]++
	}
	for _, name := range odd {
		t[kind+"."+name]++
	}
}

func (t tally) counts() []OddCount {
	var out []OddCount
	for what, n := range t {
		out = append(out, OddCount{What: what, Count: n})
	}
	slices.SortFunc(out, func(a, b OddCount) int { return cmp.Compare(a.What, b.What) })
	return out
}

// collect reads one list; records that not even have a name are counted.
func collect[T any](ctx context.Context, c *Client, q call, kind string, t tally,
	read func(raw) (T, bool), odd func(T) []string) ([]T, answer, error) {
	var out []T
	before := maps.Clone(t)
	q.method = "GET"
	q.each = func(data raw) {
		v, ok := read(data)
		t.add(kind, ok, odd(v))
		if ok {
			out = append(out, v)
		}
	}
	q.again = func() {
		out = nil
		clear(t)
		maps.Copy(t, before)
	}
	a, err := c.do(ctx, q)
	if err != nil {
		return nil, a, err
	}
	return out, a, nil
}

// undated says that an empty list carries no time of the controller, which is
// no proof that there is nothing.
func undated(a answer) bool {
	return a.count == 0 && a.hasUpdate && a.lastUpdate.n == 0
}

func emptyError(op string) error {
	return &Error{Kind: ErrBadAnswer, Op: op, HTTP: 200, Msg: "an empty list without the controller's time"}
}

// State reads everything: jobs first, then nodes, partitions and reservations,
// so that a change in between makes GPUs look busy rather than free. now is
// the local time of receipt. Any failure is a failure of the whole.
func (c *Client) State(ctx context.Context, now time.Time) (State, error) {
	s := State{At: now}
	odd := tally{}
	var err error
	var a answer
	if s.Jobs, a, err = c.jobs(ctx, odd, time.Time{}); err != nil {
		return State{}, err
	}
	s.Release, s.Cluster = a.release, a.cluster
	s.SlurmTime = (&record{}).instant("", raw(strconv.FormatInt(a.lastUpdate.n, 10)))
	if err := c.surroundings(ctx, &s, odd); err != nil {
		return State{}, err
	}
	s.Odd = odd.counts()
	return s, nil
}

// surroundings reads what is not jobs into s.
func (c *Client) surroundings(ctx context.Context, s *State, odd tally) error {
	nodes, a, err := c.nodes(ctx, odd)
	if err != nil {
		return err
	}
	s.Nodes, s.Release, s.Cluster = nodes, a.release, a.cluster
	if at := (&record{}).instant("", raw(strconv.FormatInt(a.lastUpdate.n, 10))); at.After(s.SlurmTime) {
		s.SlurmTime = at
	}
	if s.Partitions, err = c.partitions(ctx, odd); err != nil {
		return err
	}
	if s.Reservations, err = c.reservations(ctx, odd); err != nil {
		return err
	}
	s.API, err = c.Version(ctx)
	return err
}

func (c *Client) jobs(ctx context.Context, odd tally, since time.Time) ([]Job, answer, error) {
	q := call{op: "get jobs", path: "/jobs/", list: "jobs", timeout: c.opts.Timeouts.List}
	if !since.IsZero() {
		q.query = url.Values{"update_time": {strconv.FormatInt(since.Unix(), 10)}}
	}
	jobs, a, err := collect(ctx, c, q, "job", odd, readJob, func(j Job) []string { return j.Odd })
	if err != nil {
		return nil, a, err
	}
	if undated(a) && since.IsZero() {
		return nil, a, emptyError(q.op)
	}
	slices.SortStableFunc(jobs, func(a, b Job) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), b.Submit.Compare(a.Submit))
	})
	// One id in several records: the newest one is the job.
	before := len(jobs)
	jobs = slices.CompactFunc(jobs, func(a, b Job) bool { return a.ID == b.ID })
	if doubles := before - len(jobs); doubles > 0 {
		odd["job.double"] += doubles
	}
	return jobs, a, nil
}

// JobsSince reads all jobs when any changed after since, a time that an
// earlier call returned as changed; modified is false when none did.
func (c *Client) JobsSince(ctx context.Context, since time.Time) (jobs []Job, changed time.Time, modified bool, err error) {
	jobs, a, err := c.jobs(ctx, tally{}, since)
	if err != nil {
		return nil, time.Time{}, false, err
	}
	if undated(a) {
		return nil, since, false, nil
	}
	return jobs, (&record{}).instant("", raw(strconv.FormatInt(a.lastUpdate.n, 10))), true, nil
}

// Job reads one record; ErrNotFound when Slurm no longer knows it. For the
// number of an array Slurm answers with several records, of which the one with
// that raw id is returned.
func (c *Client) Job(ctx context.Context, id JobID) (Job, error) {
	q := call{op: "get job", path: "/job/" + id.String(), list: "jobs", timeout: c.opts.Timeouts.One}
	if id <= 0 {
		return Job{}, &Error{Kind: ErrInvalid, Op: q.op, Msg: "job id " + id.String()}
	}
	jobs, _, err := collect(ctx, c, q, "job", tally{}, readJob, func(j Job) []string { return j.Odd })
	if err != nil {
		return Job{}, err
	}
	for _, j := range jobs {
		if j.ID == id {
			return j, nil
		}
	}
	return Job{}, &Error{Kind: ErrBadAnswer, Op: q.op, HTTP: 200, Msg: "the job is not in the answer"}
}

// JobStates is the cheap poll of all jobs, by id: about 80 bytes a job.
func (c *Client) JobStates(ctx context.Context) ([]JobState, error) {
	q := call{op: "get job states", path: "/jobs/state/", list: "jobs", timeout: c.opts.Timeouts.One}
	states, a, err := collect(ctx, c, q, "job state", tally{}, readJobState, func(s JobState) []string { return s.Odd })
	if err != nil {
		return nil, err
	}
	if undated(a) {
		return nil, emptyError(q.op)
	}
	slices.SortStableFunc(states, func(a, b JobState) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Task, b.Task))
	})
	return states, nil
}

// Nodes reads all nodes, by name.
func (c *Client) Nodes(ctx context.Context) ([]Node, error) {
	nodes, _, err := c.nodes(ctx, tally{})
	return nodes, err
}

func (c *Client) nodes(ctx context.Context, odd tally) ([]Node, answer, error) {
	q := call{op: "get nodes", path: "/nodes/", list: "nodes", timeout: c.opts.Timeouts.One}
	nodes, a, err := collect(ctx, c, q, "node", odd, readNode, func(n Node) []string { return n.Odd })
	if err != nil {
		return nil, a, err
	}
	if undated(a) {
		return nil, a, emptyError(q.op)
	}
	slices.SortStableFunc(nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes, a, nil
}

// Partitions reads all partitions, by name.
func (c *Client) Partitions(ctx context.Context) ([]Partition, error) {
	return c.partitions(ctx, tally{})
}

func (c *Client) partitions(ctx context.Context, odd tally) ([]Partition, error) {
	q := call{op: "get partitions", path: "/partitions/", list: "partitions", timeout: c.opts.Timeouts.One}
	parts, a, err := collect(ctx, c, q, "partition", odd, readPartition, func(p Partition) []string { return p.Odd })
	if err != nil {
		return nil, err
	}
	if undated(a) {
		return nil, emptyError(q.op)
	}
	slices.SortStableFunc(parts, func(a, b Partition) int { return cmp.Compare(a.Name, b.Name) })
	return parts, nil
}

// Reservations reads all reservations, by name.
func (c *Client) Reservations(ctx context.Context) ([]Reservation, error) {
	return c.reservations(ctx, tally{})
}

func (c *Client) reservations(ctx context.Context, odd tally) ([]Reservation, error) {
	q := call{op: "get reservations", path: "/reservations/", list: "reservations", timeout: c.opts.Timeouts.One}
	all, _, err := collect(ctx, c, q, "reservation", odd, readReservation, func(v Reservation) []string { return v.Odd })
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b Reservation) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// Diag is the controller's load.
type Diag struct {
	ServerThreads, AgentQueue int
	JobsPending, JobsRunning  int
	// CycleLast and CycleMax are the main scheduler's passes.
	CycleLast, CycleMax time.Duration
	BackfillActive      bool
	BackfillLast        time.Time
}

// Diag reads the controller's statistics.
func (c *Client) Diag(ctx context.Context) (Diag, error) {
	q := call{op: "get diag", method: "GET", path: "/diag/", timeout: c.opts.Timeouts.One}
	a, err := c.do(ctx, q)
	if err != nil {
		return Diag{}, err
	}
	var s map[string]raw
	if json.Unmarshal(a.rest["statistics"], &s) != nil {
		return Diag{}, &Error{Kind: ErrBadAnswer, Op: q.op, HTTP: 200, Msg: "no statistics"}
	}
	r := &record{}
	micro := func(name string) time.Duration { return time.Duration(r.small(name, s[name])) * time.Microsecond }
	return Diag{
		ServerThreads: r.small("", s["server_thread_count"]), AgentQueue: r.small("", s["agent_queue_size"]),
		JobsPending: r.small("", s["jobs_pending"]), JobsRunning: r.small("", s["jobs_running"]),
		CycleLast: micro("schedule_cycle_last"), CycleMax: micro("schedule_cycle_max"),
		BackfillActive: r.boolean("", s["bf_active"]), BackfillLast: r.instant("", s["bf_when_last_cycle"]),
	}, nil
}
