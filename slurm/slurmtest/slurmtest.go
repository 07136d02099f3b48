// Package slurmtest is a Slurm behind HTTP: a table of jobs and nodes that answers slurmrestd's paths in the shapes and sizes of the real one, and
// does on demand what a real one does on bad days: refuses, stalls, cuts answers off, forgets. It refuses to schedule anything: jobs change when a
// test changes them. Tests of the client, of the poller and the benchmark of both call it.
package slurmtest

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Job is one record. Nodes is "" while it waits.
type Job struct {
	ID       int
	State    string // base state
	Comment  string
	Nodes    string // one node's name
	GPUs     int
	Restarts int
	Reason   string
}

// Node is one node with eight GPUs.
type Node struct {
	Name  string
	State []string
	Used  int
}

// Fault is what goes wrong with one request; the zero value is nothing.
type Fault struct {
	Status     int    // answer this instead
	Body       string // with this
	RetryAfter string // header
	Cut        bool   // close the connection in the middle of the answer
	Drop       bool   // close it without any answer; a write is carried out all the same
	Refuse     bool   // close it without any answer, and nothing is carried out
	Hang       bool   // say nothing until the client goes away
}

// Cluster answers as slurmrestd does. Make one with [New]; it is safe for concurrent use.
type Cluster struct {
	// Version is the REST version it speaks. Pretty writes JSON with white space, as slurmrestd does unless told otherwise; Began is its time. Change
	// none of them while it serves.
	Version string
	Pretty  bool
	Began   int64

	mu       sync.Mutex
	jobs     []Job // by id
	nodes    []Node
	ticks    int64 // changes so far, a second each
	fault    func(*http.Request) Fault
	requests []string
	writes   []string // bodies that were carried out
	up       []bool   // controllers, the primary first
	inflight int
	most     int
}

// New makes a cluster: running jobs fill the nodes, eight one-GPU jobs each, and the rest waits. Ids begin at 1.
func New(jobs, nodes int) *Cluster {
	c := &Cluster{Version: "v0.0.45", Began: 1795964676, up: []bool{true}}
	for i := range nodes {
		c.nodes = append(c.nodes, Node{Name: "n" + strconv.Itoa(i+1), State: []string{"IDLE"}})
	}
	for i := range jobs {
		j := Job{ID: i + 1, State: "PENDING", GPUs: 1, Reason: "Resources"}
		if i < nodes*8 && i < jobs/2 {
			j.State, j.Reason, j.Nodes = "RUNNING", "None", c.nodes[i/8].Name
			c.nodes[i/8].State, c.nodes[i/8].Used = []string{"MIXED"}, i%8+1
		}
		c.jobs = append(c.jobs, j)
	}
	return c
}

// Change edits the table under its lock: f may add, drop and change jobs and nodes; jobs stay ordered by id.
func (c *Cluster) Change(f func(jobs []Job, nodes []Node) ([]Job, []Node)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobs, c.nodes = f(c.jobs, c.nodes)
	slices.SortFunc(c.jobs, func(a, b Job) int { return a.ID - b.ID })
	c.ticks++
}

// SetJob changes one job.
func (c *Cluster) SetJob(id int, f func(*Job)) {
	c.Change(func(jobs []Job, nodes []Node) ([]Job, []Node) {
		for i := range jobs {
			if jobs[i].ID == id {
				f(&jobs[i])
			}
		}
		return jobs, nodes
	})
}

// SetControllers says which slurmctlds are up, the primary first.
func (c *Cluster) SetControllers(up ...bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.up = up
}

// Break asks f about each request from now on; nil heals.
func (c *Cluster) Break(f func(*http.Request) Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = f
}

// Took returns what was asked since the last call, "GET /jobs/", and the bodies of the writes that were carried out.
func (c *Cluster) Took() (requests, writes []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	requests, writes = c.requests, c.writes
	c.requests, c.writes = nil, nil
	return requests, writes
}

// MostAtOnce is the largest number of requests that were answered at the same time.
func (c *Cluster) MostAtOnce() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most
}

// ServeHTTP answers one request.
func (c *Cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, ok := strings.CutPrefix(r.URL.Path, "/slurm/"+c.Version)
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	c.mu.Lock()
	c.requests = append(c.requests, r.Method+" "+path)
	c.inflight++
	c.most = max(c.most, c.inflight)
	fault := c.fault
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.inflight--
		c.mu.Unlock()
	}()
	var f Fault
	if fault != nil {
		f = fault(r)
	}
	switch {
	case f.Hang:
		<-r.Context().Done()
		return
	case f.Refuse:
		panic(http.ErrAbortHandler)
	case f.Status != 0:
		if f.RetryAfter != "" {
			w.Header().Set("Retry-After", f.RetryAfter)
		}
		w.WriteHeader(f.Status)
		io.WriteString(w, f.Body)
		return
	case !ok:
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, "Unable find requested URL")
		return
	}
	c.mu.Lock()
	jobs, nodes, now := slices.Clone(c.jobs), slices.Clone(c.nodes), c.Began+c.ticks
	up := slices.Clone(c.up)
	if r.Method != http.MethodGet {
		c.writes = append(c.writes, r.Method+" "+path+" "+string(body))
		c.ticks++
	}
	c.mu.Unlock()
	if f.Drop {
		panic(http.ErrAbortHandler)
	}
	out := io.Writer(w)
	if f.Cut {
		out = &cutter{w: w, left: 64}
	}
	b := bufio.NewWriterSize(out, 64<<10)
	defer b.Flush()
	a := answerer{w: b, pretty: c.Pretty, now: now}
	since := r.URL.Query().Get("update_time")
	if n, err := strconv.ParseInt(since, 10, 64); err == nil && n >= now && path != "/jobs/state/" {
		jobs, nodes, a.now = nil, nil, 0
	}
	a.answer(path, r.Method, jobs, nodes, up)
}

// cutter ends the connection after some bytes.
type cutter struct {
	w    io.Writer
	left int
}

func (c *cutter) Write(p []byte) (int, error) {
	if c.left -= len(p); c.left < 0 {
		c.w.Write(p[:max(0, len(p)+c.left)])
		if f, ok := c.w.(http.Flusher); ok {
			f.Flush()
		}
		panic(http.ErrAbortHandler)
	}
	return c.w.Write(p)
}

// answerer writes one answer.
type answerer struct {
	w      *bufio.Writer
	pretty bool
	now    int64
}

func (a answerer) answer(path, method string, jobs []Job, nodes []Node, up []bool) {
	id, isJob := strings.CutPrefix(path, "/job/")
	switch {
	case method != http.MethodGet:
		a.text(`{"results":[],"status":[],` + a.tail() + `}`)
	case isJob:
		n, _ := strconv.Atoi(id)
		i, ok := slices.BinarySearchFunc(jobs, n, func(j Job, n int) int { return j.ID - n })
		if !ok {
			a.text(`{"jobs":[],"errors":[{"description":"job","error_number":2017,"error":"Invalid job id specified","source":"x"}]}`)
			return
		}
		list(a, "jobs", jobs[i:i+1], func(j Job) { a.job(j) })
	case path == "/jobs/":
		list(a, "jobs", jobs, func(j Job) { a.job(j) })
	case path == "/jobs/state/":
		list(a, "jobs", jobs, func(j Job) { a.text(fmt.Sprintf(`{"job_id":"%d","state":["%s"]}`, j.ID, j.State)) })
	case path == "/nodes/":
		list(a, "nodes", nodes, func(n Node) { a.node(n) })
	case path == "/partitions/":
		list(a, "partitions", []int{len(nodes)}, func(n int) { a.text(fmt.Sprintf(partitionForm, n)) })
	case path == "/reservations/":
		list(a, "reservations", []int{}, func(int) {})
	case path == "/ping/":
		a.text(`{"pings":[`)
		for i, ok := range up {
			if i > 0 {
				a.text(",")
			}
			mode, word := "primary", "DOWN"
			if i > 0 {
				mode = "backup" + strconv.Itoa(i)
			}
			if ok {
				word = "UP"
			}
			a.text(fmt.Sprintf(`{"hostname":"ctl%d","pinged":"%s","responding":%v,"latency":147,"mode":"%s","primary":%v}`, i+1, word, ok, mode, i == 0))
		}
		a.text("]," + a.tail() + "}")
	default:
		a.text(`{"statistics":{},` + a.tail() + `}`)
	}
}

func list[T any](a answerer, name string, items []T, one func(T)) {
	a.text(`{"` + name + `":[`)
	for i, item := range items {
		if i > 0 {
			a.text(",")
		}
		one(item)
	}
	a.text("]," + a.tail() + "}")
}

func (a answerer) tail() string {
	return fmt.Sprintf(`"last_update":{"set":true,"infinite":false,"number":%d},"meta":{"slurm":{"release":"26.05.5","cluster":"fake"}},"errors":[],"warnings":[]`, a.now)
}

func (a answerer) text(s string) { a.w.WriteString(s) }

// job writes one whole record, with the many members that nobody reads.
func (a answerer) job(j Job) {
	start, alloc, detail, nodes := int64(0), "", "", 0
	if j.Nodes != "" {
		start, alloc, nodes = a.now-600, fmt.Sprintf("cpu=1,node=1,billing=1,gres/gpu=%d", j.GPUs), 1
		detail = fmt.Sprintf(`"gpu:v100:%d(IDX:%d)"`, j.GPUs, (j.ID-1)%8)
	}
	form := jobForm()
	if a.pretty {
		form = prettyJobForm()
	}
	id := strconv.Itoa(j.ID)
	for _, part := range form {
		switch part {
		case "@id@":
			a.text(id)
		case "@state@":
			a.text(j.State)
		case "@comment@":
			a.text(strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(j.Comment))
		case "@nodes@":
			a.text(j.Nodes)
		case "@detail@":
			a.text(detail)
		case "@alloc@":
			a.text(alloc)
		case "@gpus@":
			a.text(strconv.Itoa(j.GPUs))
		case "@restarts@":
			a.text(strconv.Itoa(j.Restarts))
		case "@reason@":
			a.text(j.Reason)
		case "@start@":
			a.text(strconv.FormatInt(start, 10))
		case "@submit@":
			a.text(strconv.FormatInt(1795960000+int64(j.ID), 10))
		case "@resources@":
			if nodes > 0 {
				a.text(resources(j.Nodes))
			} else {
				a.text("null")
			}
		default:
			a.text(part)
		}
	}
}

func (a answerer) node(n Node) {
	used := "N/A"
	if n.Used > 0 {
		used = "0-" + strconv.Itoa(n.Used-1)
	}
	fmt.Fprintf(a.w, nodeForm, n.Used, used, n.Name, n.Name, strings.Join(n.State, `","`))
}

// Deadline is a generous bound for tests that wait for something that happens at once.
const Deadline = 30 * time.Second
