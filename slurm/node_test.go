package slurm

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const idleNode = `{"name":"n1","state":["IDLE"],"reason":"","reservation":"","topology":null,"cpus":32,"effective_cpus":32,"alloc_cpus":1,"sockets":2,
 "real_memory":64000,"specialized_memory":1000,"alloc_memory":500,"gres":"gpu:v100:8(S:0-1)","gres_used":"gpu:v100:2(IDX:0,3)","gres_drained":"N/A",
 "features":[],"active_features":["ib"],"partitions":["profile","gpu"],"weight":1,"cpu_load":4294967294,"boot_time":{"set":true,"infinite":false,"number":1795963330}}`

func idle(change func(*Node)) Node {
	n := Node{Name: "n1", State: NodeIdle, Usable: true, CPUs: 32, AllocCPUs: 1, Sockets: 2, MemMB: 63000, AllocMemMB: 500,
		GPUs:      []GPUs{{Type: "v100", Count: 8, Used: 2, UsedIndices: []int{0, 3}, Sockets: []int{0, 1}}},
		Available: []string{"ib"}, Partitions: []string{"gpu", "profile"}, Weight: 1, Boot: time.Unix(1795963330, 0).UTC()}
	change(&n)
	return n
}

func TestReadNode(t *testing.T) {
	state := func(s NodeState, usable bool, flags ...string) func(*Node) {
		return func(n *Node) { n.State, n.Usable, n.Flags = s, usable, flags }
	}
	odd := func(s NodeState, flags ...string) func(*Node) {
		return func(n *Node) { n.State, n.Usable, n.Flags, n.Odd = s, false, flags, []string{"state"} }
	}
	for _, tt := range []struct {
		name    string
		members map[string]string
		want    func(*Node)
	}{
		{"case 5: load beyond 31 bits", nil, func(*Node) {}},
		{"case 23: mixed and drained", map[string]string{"state": `["MIXED","DRAIN"]`}, state(NodeMixed, false, "DRAIN")},
		{"case 23: idle and drained", map[string]string{"state": `["IDLE","DRAIN"]`}, state(NodeIdle, false, "DRAIN")},
		{"case 23: down and silent", map[string]string{"state": `["DOWN","NOT_RESPONDING"]`}, state(NodeDown, false, "NOT_RESPONDING")},
		{"case 23: planned and reserved", map[string]string{"state": `["IDLE","PLANNED","RESERVED"]`}, state(NodeIdle, true, "PLANNED", "RESERVED")},
		{"case 23: completing", map[string]string{"state": `["ALLOCATED","COMPLETING"]`}, state(NodeAllocated, true, "COMPLETING")},
		{"case 23: old split shape", map[string]string{"state": `"idle"`, "state_flags": `["DRAIN"]`}, state(NodeIdle, false, "DRAIN")},
		{"case 23: drained wins over reserved", map[string]string{"state": `["IDLE","RESERVED","DRAIN"]`}, state(NodeIdle, false, "DRAIN", "RESERVED")},
		{"case 23: command's plus", map[string]string{"state": `"MIXED+DRAIN"`}, state(NodeMixed, false, "DRAIN")},
		{"case 23: command's star", map[string]string{"state": `"DOWN*"`}, state(NodeDown, false, "NOT_RESPONDING")},
		{"command's word", map[string]string{"state": `"drained*"`}, state(NodeIdle, false, "DRAIN", "NOT_RESPONDING")},
		{"asleep", map[string]string{"state": `["IDLE","CLOUD","POWERED_DOWN"]`}, func(n *Node) {
			state(NodeIdle, false, "CLOUD", "POWERED_DOWN")(n)
			n.PoweredDown = true
		}},
		{"maintenance", map[string]string{"state": `["IDLE","MAINTENANCE"]`}, state(NodeIdle, false, "MAINTENANCE")},
		{"failing", map[string]string{"state": `["MIXED","FAIL"]`}, state(NodeMixed, false, "FAIL")},
		{"case 23: unknown flag", map[string]string{"state": `["IDLE","SPARKLING"]`}, odd(NodeIdle, "SPARKLING")},
		{"case 23: unknown state", map[string]string{"state": `["SPARKLING"]`}, odd(NodeUnknown, "SPARKLING")},
		{"case 23: no state", map[string]string{"state": `[]`}, odd(NodeUnknown)},
		{"case 6: state missing", map[string]string{"state": ``}, odd(NodeUnknown)},
		{"case 21: fewer GPUs than configured", map[string]string{"state": `["IDLE","DRAIN"]`, "reason": `"gres/gpu count reported lower than configured (3 < 4)"`},
			func(n *Node) {
				state(NodeIdle, false, "DRAIN")(n)
				n.Reason = "gres/gpu count reported lower than configured (3 < 4)"
			}},
		{"case 17: two kinds", map[string]string{"gres": `"gpu:a:2(S:0),gpu:b:2(S:1)"`, "gres_used": `"gpu:a:1(IDX:1),gpu:b:2(IDX:2-3)"`},
			func(n *Node) {
				n.GPUs = []GPUs{{Type: "a", Count: 2, Used: 1, UsedIndices: []int{1}, Sockets: []int{0}}, {Type: "b", Count: 2, Used: 2, UsedIndices: []int{2, 3}, Sockets: []int{1}}}
			}},
		{"one kind in two lines", map[string]string{"gres": `"gpu:v100:4(S:0),gpu:v100:4(S:1)"`}, func(*Node) {}},
		{"case 20: null type", map[string]string{"gres": `"gpu:8(S:0-1)"`, "gres_used": `"gpu:(null):2(IDX:0,3)"`}, func(n *Node) { n.GPUs[0].Type = "" }},
		{"case 20: null words", map[string]string{"gres": `"(null)"`, "gres_used": `"(null)"`, "gres_drained": `"(null)"`, "features": `"(null)"`}, func(n *Node) { n.GPUs = nil }},
		{"case 20: null", map[string]string{"gres": `null`, "gres_used": `null`, "gres_drained": `null`}, func(n *Node) { n.GPUs = nil }},
		{"case 18: MIG", map[string]string{"gres": `"gpu:nvidia_h200_nvl_4g.71gb:2"`, "gres_used": `""`},
			func(n *Node) { n.GPUs = []GPUs{{Type: "nvidia_h200_nvl_4g.71gb", Count: 2, MIG: true}} }},
		{"shards", map[string]string{"gres": `"gpu:v100:8(S:0-1),shard:v100:32(S:0-1)"`}, func(n *Node) { n.OtherGRES = true }},
		{"used by an unknown kind", map[string]string{"gres_used": `"gpu:h100:1(IDX:0)"`},
			func(n *Node) {
				n.GPUs[0].Used, n.GPUs[0].UsedIndices, n.Usable, n.Odd = 0, nil, false, []string{"gres_used"}
			}},
		{"drained devices", map[string]string{"gres_drained": `"gpu:v100:1"`}, func(n *Node) { n.Usable, n.Odd = false, []string{"gres_drained"} }},
		{"broken gres", map[string]string{"gres": `"gpu:(("`, "gres_used": `""`}, func(n *Node) { n.GPUs, n.Usable, n.Odd = nil, false, []string{"gres"} }},
		{"features as text", map[string]string{"features": `"b,a"`}, func(n *Node) { n.Features = []string{"a", "b"} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := readNode(with(t, idleNode, tt.members))
			if !ok {
				t.Fatal("the record was lost")
			}
			if d := cmp.Diff(idle(tt.want), got); d != "" {
				t.Error(d)
			}
		})
	}
	for _, data := range []string{`{}`, `[]`, `null`, `{"name":""}`, `{"name":{}}`} {
		if n, ok := readNode(raw(data)); ok {
			t.Errorf("%s: %+v", data, n)
		}
	}
}

func TestReadPartition(t *testing.T) {
	const record = `{"name":"gpu","nodes":{"configured":"n[1-2]","total":2},"accounts":{"allowed":"ALL","deny":"x"},"groups":{"allowed":""},
	 "qos":{"allowed":"b,a","deny":"","assigned":"q"},"defaults":{"time":{"set":true,"infinite":false,"number":10}},
	 "maximums":{"nodes":{"set":false,"infinite":true,"number":0},"time":{"set":false,"infinite":true,"number":0},"shares":1,"cpus_per_node":{"infinite":true}},
	 "minimums":{"nodes":0},"priority":{"job_factor":1,"tier":10},"partition":{"state":["UP"]},"grace_time":20}`
	want := func(change func(*Partition)) Partition {
		p := Partition{Name: "gpu", Up: true, Nodes: []string{"n1", "n2"}, DeniedAccounts: []string{"x"}, AllowedQOS: []string{"a", "b"}, QOS: "q",
			DefaultTime: 10 * time.Minute, Tier: 10, JobFactor: 1, GraceTime: 20 * time.Second}
		change(&p)
		return p
	}
	for _, tt := range []struct {
		name    string
		members map[string]string
		want    func(*Partition)
	}{
		{"24.11", nil, func(*Partition) {}},
		{"26.05", map[string]string{"partition": `{"state":["UP"],"exclusive":"NO"}`, "flags": `["DEFAULT"]`, "preempt_mode": `["REQUEUE"]`, "maximums": `{"shares":0}`},
			func(p *Partition) { p.Default, p.PreemptMode = true, []string{"REQUEUE"} }},
		{"exclusive, 24.11", map[string]string{"maximums": `{"shares":0}`}, func(p *Partition) { p.Exclusive = true }},
		{"exclusive, 26.05", map[string]string{"partition": `{"state":["UP"],"exclusive":"USER"}`}, func(p *Partition) { p.Exclusive = true }},
		{"down", map[string]string{"partition": `{"state":["DOWN"]}`}, func(p *Partition) { p.Up = false }},
		{"limits", map[string]string{"maximums": `{"nodes":{"set":true,"number":2},"time":60,"shares":1}`}, func(p *Partition) { p.MaxNodes, p.MaxTime = 2, time.Hour }},
		{"case 2: nodes as text", map[string]string{"nodes": `"n[1-2]"`}, func(*Partition) {}},
		{"case 2: members of other shapes", map[string]string{"qos": `[]`, "accounts": `"x"`, "priority": `null`},
			func(p *Partition) {
				p.QOS, p.AllowedQOS, p.DeniedAccounts, p.Tier, p.JobFactor, p.Odd = "", nil, nil, 0, 0, []string{"accounts"}
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := readPartition(with(t, record, tt.members))
			if d := cmp.Diff(want(tt.want), got); d != "" || !ok {
				t.Error(ok, d)
			}
		})
	}
}

func TestReadReservation(t *testing.T) {
	got, ok := readReservation(raw(`{"name":"maint","start_time":{"set":true,"number":100},"end_time":200,"node_list":"n[1-2]","users":"root,bob","accounts":"","partition":"gpu","flags":["SPEC_NODES","MAINT"]}`))
	want := Reservation{Name: "maint", Start: time.Unix(100, 0).UTC(), End: time.Unix(200, 0).UTC(), Nodes: []string{"n1", "n2"},
		Users: []string{"bob", "root"}, Partition: "gpu", Flags: []string{"MAINT", "SPEC_NODES"}}
	if d := cmp.Diff(want, got); d != "" || !ok {
		t.Error(ok, d)
	}
}
