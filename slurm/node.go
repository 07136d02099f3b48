package slurm

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"unisched/slurm/gres"
)

// nodeWire holds the fields in use of one node record, not yet understood.
type nodeWire struct {
	Name        raw `json:"name"`
	State       raw `json:"state"`
	StateFlags  raw `json:"state_flags"`
	Reason      raw `json:"reason"`
	Reservation raw `json:"reservation"`
	Topology    raw `json:"topology"`
	CPUs        raw `json:"cpus"`
	Effective   raw `json:"effective_cpus"`
	AllocCPUs   raw `json:"alloc_cpus"`
	Sockets     raw `json:"sockets"`
	Memory      raw `json:"real_memory"`
	Specialized raw `json:"specialized_memory"`
	AllocMemory raw `json:"alloc_memory"`
	Gres        raw `json:"gres"`
	GresUsed    raw `json:"gres_used"`
	GresDrained raw `json:"gres_drained"`
	Features    raw `json:"features"`
	Active      raw `json:"active_features"`
	Partitions  raw `json:"partitions"`
	Weight      raw `json:"weight"`
	Boot        raw `json:"boot_time"`
}

// readNode understands one node record. ok is false when the name is unknown.
func readNode(data raw) (n Node, ok bool) {
	var w nodeWire
	if !unwire(data, &w) {
		return Node{}, false
	}
	r := &record{}
	if n.Name = r.text("name", w.Name); n.Name == "" {
		return Node{}, false
	}
	n.State, n.Flags, n.Usable = r.nodeState(w.State, w.StateFlags)
	n.PoweredDown = n.HasFlag("POWERED_DOWN")
	n.Reason = r.text("reason", w.Reason)
	n.Reservation = r.text("reservation", w.Reservation)
	n.Topology = r.text("topology", w.Topology)
	if n.CPUs = r.small("effective_cpus", w.Effective); n.CPUs == 0 {
		n.CPUs = r.small("cpus", w.CPUs)
	}
	n.AllocCPUs = r.small("alloc_cpus", w.AllocCPUs)
	n.Sockets = r.small("sockets", w.Sockets)
	n.MemMB = r.integer("real_memory", w.Memory) - r.integer("specialized_memory", w.Specialized)
	n.AllocMemMB = r.integer("alloc_memory", w.AllocMemory)
	n.Features = r.words("features", w.Features)
	n.Available = r.words("active_features", w.Active)
	n.Partitions = r.words("partitions", w.Partitions)
	n.Weight = r.integer("weight", w.Weight)
	n.Boot = r.instant("boot_time", w.Boot)
	r.nodeGPUs(&n, &w)
	n.Odd = r.notes()
	n.Usable = n.Usable && len(n.Odd) == 0
	return n, true
}

// nodeGPUs joins what is configured with what is in use, by type.
func (r *record) nodeGPUs(n *Node, w *nodeWire) {
	for _, e := range r.gresEntries("gres", w.Gres) {
		if e.Name != "gpu" {
			n.OtherGRES = n.OtherGRES || e.Shared()
			continue
		}
		i := slices.IndexFunc(n.GPUs, func(g GPUs) bool { return g.Type == e.Type })
		if i < 0 {
			i = len(n.GPUs)
			n.GPUs = append(n.GPUs, GPUs{Type: e.Type, MIG: e.MIG()})
		}
		g := &n.GPUs[i]
		g.Count += int(min(e.Count, 1<<16))
		g.Sockets = sortedInts(append(g.Sockets, e.Sockets...))
	}
	for _, e := range r.gresEntries("gres_used", w.GresUsed) {
		if e.Name != "gpu" {
			continue
		}
		i := slices.IndexFunc(n.GPUs, func(g GPUs) bool { return g.Type == e.Type })
		if i < 0 && len(n.GPUs) == 1 && (e.Type == "" || n.GPUs[0].Type == "") {
			i = 0 // one side has no type
		}
		if i < 0 {
			if e.Count > 0 {
				r.note("gres_used")
			}
			continue
		}
		g := &n.GPUs[i]
		g.Used += int(min(e.Count, 1<<16))
		g.UsedIndices = sortedInts(append(g.UsedIndices, e.Indices...))
	}
	for _, e := range r.gresEntries("gres_drained", w.GresDrained) {
		if e.Count > 0 {
			r.note("gres_drained") // which devices is not said
		}
	}
}

func (r *record) gresEntries(name string, f raw) []gres.Entry {
	entries, err := gres.Parse(r.text(name, f))
	if err != nil {
		r.note(name)
	}
	return entries
}

func sortedInts(ns []int) []int {
	slices.Sort(ns)
	if ns = slices.Compact(ns); len(ns) == 0 {
		return nil
	}
	return ns
}

// readPartition understands one partition record.
func readPartition(data raw) (p Partition, ok bool) {
	var w struct {
		Name      raw `json:"name"`
		Nodes     raw `json:"nodes"`
		Accounts  raw `json:"accounts"`
		Groups    raw `json:"groups"`
		QOS       raw `json:"qos"`
		Defaults  raw `json:"defaults"`
		Maximums  raw `json:"maximums"`
		Minimums  raw `json:"minimums"`
		Priority  raw `json:"priority"`
		Partition raw `json:"partition"`
		Flags     raw `json:"flags"`
		Preempt   raw `json:"preempt_mode"`
		Grace     raw `json:"grace_time"`
	}
	if json.Unmarshal(data, &w) != nil {
		return Partition{}, false
	}
	r := &record{}
	if p.Name = r.text("name", w.Name); p.Name == "" {
		return Partition{}, false
	}
	// A limit that cannot be read must not pass for no limit.
	for name, f := range map[string]raw{"accounts": w.Accounts, "groups": w.Groups, "qos": w.QOS, "defaults": w.Defaults,
		"maximums": w.Maximums, "minimums": w.Minimums, "priority": w.Priority, "partition": w.Partition} {
		if !absent(f) && !emptyBox(f) && f[0] != '{' {
			r.note(name)
		}
	}
	for _, s := range r.list("state", dig(w.Partition, "state")) {
		p.Up = p.Up || strings.EqualFold(s, "UP")
	}
	for _, s := range r.list("flags", w.Flags) {
		p.Default = p.Default || s == "DEFAULT"
	}
	nodes := w.Nodes
	if f := dig(w.Nodes, "configured"); f != nil {
		nodes = f
	}
	p.Nodes = r.hosts("nodes", nodes)
	p.MinNodes = r.small("minimums.nodes", dig(w.Minimums, "nodes"))
	p.MaxNodes = r.small("maximums.nodes", dig(w.Maximums, "nodes"))
	p.MaxCPUsPerNode = r.small("maximums.cpus_per_node", dig(w.Maximums, "cpus_per_node"))
	p.MaxTime, _ = r.minutes("maximums.time", dig(w.Maximums, "time"))
	p.DefaultTime, _ = r.minutes("defaults.time", dig(w.Defaults, "time"))
	p.QOS = r.text("qos.assigned", dig(w.QOS, "assigned"))
	p.AllowedQOS = r.allowed("qos.allowed", dig(w.QOS, "allowed"))
	p.DeniedQOS = r.words("qos.deny", dig(w.QOS, "deny"))
	p.AllowedAccounts = r.allowed("accounts.allowed", dig(w.Accounts, "allowed"))
	p.DeniedAccounts = r.words("accounts.deny", dig(w.Accounts, "deny"))
	p.AllowedGroups = r.allowed("groups.allowed", dig(w.Groups, "allowed"))
	p.Tier = r.small("priority.tier", dig(w.Priority, "tier"))
	p.JobFactor = r.small("priority.job_factor", dig(w.Priority, "job_factor"))
	p.PreemptMode = r.words("preempt_mode", w.Preempt)
	p.GraceTime = time.Duration(r.small("grace_time", w.Grace)) * time.Second
	p.Exclusive = r.exclusive(dig(w.Partition, "exclusive"), dig(w.Maximums, "shares"))
	p.Odd = r.notes()
	return p, true
}

// exclusive reads the word of newer releases; older ones say it by a share
// count of 0.
func (r *record) exclusive(word, shares raw) bool {
	if !absent(word) {
		switch strings.ToUpper(r.text("exclusive", word)) {
		case "", "NO", "FALSE":
			return false
		}
		return true
	}
	c := r.number("maximums.shares", shares)
	return c.set && c.n == 0
}

// allowed is a list of names; empty means everybody.
func (r *record) allowed(name string, f raw) []string {
	words := r.words(name, f)
	if len(words) == 1 && strings.EqualFold(words[0], "ALL") {
		return nil
	}
	return words
}

// readReservation understands one reservation record.
func readReservation(data raw) (v Reservation, ok bool) {
	var w struct {
		Name      raw `json:"name"`
		Start     raw `json:"start_time"`
		End       raw `json:"end_time"`
		Nodes     raw `json:"node_list"`
		Users     raw `json:"users"`
		Accounts  raw `json:"accounts"`
		Partition raw `json:"partition"`
		Flags     raw `json:"flags"`
	}
	if json.Unmarshal(data, &w) != nil {
		return Reservation{}, false
	}
	r := &record{}
	if v.Name = r.text("name", w.Name); v.Name == "" {
		return Reservation{}, false
	}
	v.Start, v.End = r.instant("start_time", w.Start), r.instant("end_time", w.End)
	v.Nodes = r.hosts("node_list", w.Nodes)
	v.Users, v.Accounts = r.words("users", w.Users), r.words("accounts", w.Accounts)
	v.Partition = r.text("partition", w.Partition)
	v.Flags = r.words("flags", w.Flags)
	v.Odd = r.notes()
	return v, true
}

// readJobState understands one record of the cheap poll. Its id is the text
// "12", or "12_3" for a task, in which 12 is the record's raw id; a het
// component ("12+1") is noted.
func readJobState(data raw) (s JobState, ok bool) {
	var w struct {
		JobID      raw `json:"job_id"`
		State      raw `json:"state"`
		JobState   raw `json:"job_state"`
		StateFlags raw `json:"state_flags"`
	}
	if json.Unmarshal(data, &w) != nil {
		return JobState{}, false
	}
	r := &record{}
	s.Task = -1
	text := r.text("job_id", w.JobID)
	id, task, isTask := strings.Cut(text, "_")
	if isTask {
		if t, err := strconv.ParseInt(task, 10, 32); err == nil && t >= 0 {
			s.Task = int(t)
		} else if !strings.HasPrefix(task, "[") {
			r.note("job_id")
		}
	}
	id, _, isHet := strings.Cut(id, "+")
	if isHet {
		r.note("job_id")
	}
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil || n <= 0 {
		return JobState{}, false
	}
	s.ID = JobID(n)
	if absent(w.State) {
		w.State = w.JobState
	}
	s.State, s.Flags = r.jobState(w.State, w.StateFlags)
	s.Odd = r.notes()
	return s, true
}
