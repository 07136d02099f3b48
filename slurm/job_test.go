package slurm

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// runningJob is hand-made in the shape of Slurm 26.05 (v0.0.45).
const runningJob = `{
 "job_id": 6, "array_job_id": {"set":true,"infinite":false,"number":0}, "array_task_id": {"set":false,"infinite":false,"number":0},
 "array_task_string": "", "het_job_id": {"set":true,"infinite":false,"number":0}, "het_job_offset": {"set":true,"infinite":false,"number":0},
 "name": "run1", "user_name": "alice", "user_id": 2001, "account": "a1", "partition": "gpu", "qos": "normal",
 "comment": "unisched:class=besteffort", "admin_comment": "", "features": "", "resv_name": "", "licenses": "", "dependency": "",
 "command": "/home/alice/loop.sh", "current_working_directory": "/home/alice", "submit_line": "sbatch loop.sh",
 "standard_output": "/home/alice/%x.%j.out", "stdout_expanded": "/home/alice/run1.6.out", "cluster": "fake", "federation_origin": "", "container": "",
 "job_state": ["RUNNING"], "state_reason": "None", "hold": false, "priority": {"set":true,"infinite":false,"number":1}, "nice": -3, "restart_cnt": 2, "requeue": true,
 "submit_time": {"set":true,"infinite":false,"number":1795964673}, "eligible_time": {"set":true,"infinite":false,"number":1795964673},
 "start_time": {"set":true,"infinite":false,"number":1795964675}, "end_time": {"set":true,"infinite":false,"number":1795968275},
 "deadline": {"set":true,"infinite":false,"number":0}, "time_limit": {"set":true,"infinite":false,"number":60},
 "node_count": {"set":true,"infinite":false,"number":2}, "max_nodes": {"set":true,"infinite":false,"number":0}, "tasks": {"set":true,"infinite":false,"number":2},
 "cpus_per_task": {"set":true,"infinite":false,"number":1}, "cpus": {"set":true,"infinite":false,"number":2}, "minimum_cpus_per_node": {"set":true,"infinite":false,"number":1},
 "memory_per_node": {"set":true,"infinite":false,"number":0}, "memory_per_cpu": {"set":false,"infinite":false,"number":0},
 "tres_per_job": "", "tres_per_node": "gres/gpu:v100:4", "tres_per_socket": "", "tres_per_task": "",
 "tres_req_str": "cpu=2,mem=125G,node=2,billing=2,gres/gpu=8", "tres_alloc_str": "cpu=2,node=2,billing=2,gres/gpu=8",
 "shared": [], "contiguous": false, "required_nodes": "", "excluded_nodes": "n[7-8]",
 "nodes": "n[1-2]", "gres_detail": ["gpu:v100:4(IDX:0-3)", "gpu:v100:4(IDX:0-1,4,6)"],
 "job_resources": {"nodes": {"count": 2, "list": "n[1-2]", "allocation": []}},
 "exit_code": {"status":["SUCCESS"],"return_code":{"set":true,"infinite":false,"number":0},"signal":{"id":{"set":false,"infinite":false,"number":0},"name":""}},
 "batch_flag": true, "cron": "", "flags": ["JOB_WAS_RUNNING"], "some_future_field": {"deep": [1, 2]}
}`

func running(change func(*Job)) Job {
	at := func(s int64) time.Time { return time.Unix(s, 0).UTC() }
	j := Job{
		ID: 6, ArrayTask: -1, Name: "run1", User: "alice", UID: 2001, Account: "a1", Partition: "gpu", QOS: "normal",
		Comment: "unisched:class=besteffort", Command: "/home/alice/loop.sh", WorkDir: "/home/alice", SubmitLine: "sbatch loop.sh",
		StdOut: "/home/alice/run1.6.out", Cluster: "fake",
		State: StateRunning, Priority: 1, Nice: -3, Restarts: 2, Requeue: true,
		Submit: at(1795964673), Eligible: at(1795964673), Start: at(1795964675), End: at(1795968275), TimeLimit: time.Hour,
		Request: Request{Nodes: MinMax{Min: 2}, Tasks: 2, CPUsPerTask: 1, CPUs: 2, MinCPUsPerNode: 1, TRESPerNode: "gres/gpu:v100:4",
			TRESReq: "cpu=2,mem=125G,node=2,billing=2,gres/gpu=8", GPUs: 8, GPUType: "v100", ExcludedNodes: []string{"n7", "n8"}},
		Nodes:     []string{"n1", "n2"},
		NodeGPUs:  []NodeGPUs{{Node: "n1", Type: "v100", Count: 4, Indices: []int{0, 1, 2, 3}}, {Node: "n2", Type: "v100", Count: 4, Indices: []int{0, 1, 4, 6}}},
		AllocGPUs: 8, AllocCPUs: 2, Batch: true,
	}
	change(&j)
	return j
}

// with returns a record with some members replaced; a value of "" deletes.
func with(t *testing.T, record string, members map[string]string) raw {
	t.Helper()
	var m map[string]raw
	if err := json.Unmarshal([]byte(record), &m); err != nil {
		t.Fatal(err)
	}
	for k, v := range members {
		if m[k] = raw(v); v == "" {
			delete(m, k)
		}
	}
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestReadJob(t *testing.T) {
	same := func(*Job) {}
	for _, tt := range []struct {
		name    string
		members map[string]string
		want    func(*Job)
	}{
		{"as written", nil, same},
		{"case 1: state as text", map[string]string{"job_state": `"RUNNING"`}, same},
		{"case 1: state and flag", map[string]string{"job_state": `["RUNNING","COMPLETING"]`}, func(j *Job) { j.Flags = []string{"COMPLETING"} }},
		{"case 1: flag first, doubled", map[string]string{"job_state": `["REQUEUED","PENDING","REQUEUED"]`},
			func(j *Job) { j.State, j.Flags = StatePending, []string{"REQUEUED"} }},
		{"case 1: old split shape", map[string]string{"job_state": `"PENDING"`, "state_flags": `["REQUEUED"]`},
			func(j *Job) { j.State, j.Flags = StatePending, []string{"REQUEUED"} }},
		{"case 1: no state", map[string]string{"job_state": `[]`}, func(j *Job) { j.State, j.Odd = StateUnknown, []string{"job_state"} }},
		{"case 1: state missing", map[string]string{"job_state": ``}, func(j *Job) { j.State, j.Odd = StateUnknown, []string{"job_state"} }},
		{"case 1: unknown state", map[string]string{"job_state": `["FUTURE_STATE"]`},
			func(j *Job) { j.State, j.Flags, j.Odd = StateUnknown, []string{"FUTURE_STATE"}, []string{"job_state"} }},
		{"case 1: unknown flag", map[string]string{"job_state": `["RUNNING","FUTURE_FLAG"]`},
			func(j *Job) { j.Flags, j.Odd = []string{"FUTURE_FLAG"}, []string{"job_state"} }},
		{"two base states", map[string]string{"job_state": `["RUNNING","PENDING"]`}, func(j *Job) { j.State, j.Odd = StateUnknown, []string{"job_state"} }},
		{"cancelled by somebody", map[string]string{"job_state": `"CANCELLED by 1000"`}, func(j *Job) { j.State = StateCancelled }},
		{"case 2: text as object", map[string]string{"account": `{}`}, func(j *Job) { j.Account = "" }},
		{"case 2: text as list", map[string]string{"account": `["a1"]`}, same},
		{"case 2: text as number", map[string]string{"account": `7`}, func(j *Job) { j.Account = "7" }},
		{"case 2: text null", map[string]string{"account": `null`}, func(j *Job) { j.Account = "" }},
		{"case 2: text absent", map[string]string{"account": ``}, func(j *Job) { j.Account = "" }},
		{"case 2: text as full object", map[string]string{"account": `{"a":1}`}, func(j *Job) { j.Account, j.Odd = "", []string{"account"} }},
		{"case 2: number as object", map[string]string{"nice": `{}`}, func(j *Job) { j.Nice, j.Odd = 0, []string{"nice"} }},
		{"case 2: number as list", map[string]string{"nice": `[]`}, func(j *Job) { j.Nice, j.Odd = 0, []string{"nice"} }},
		{"case 2: number as text", map[string]string{"nice": `"-3"`}, same},
		{"case 2: number boxed", map[string]string{"nice": `{"set":true,"number":-3}`}, same},
		{"case 2: number null", map[string]string{"nice": `null`}, func(j *Job) { j.Nice = 0 }},
		{"case 2: number as float", map[string]string{"nice": `-3.0`}, same},
		{"case 2: number nested", map[string]string{"nice": `{"set":true,"number":{"set":true,"number":1}}`}, func(j *Job) { j.Nice, j.Odd = 0, []string{"nice"} }},
		{"case 2: number out of range", map[string]string{"nice": `1e300`}, func(j *Job) { j.Nice, j.Odd = 0, []string{"nice"} }},
		{"case 2: flag as text", map[string]string{"requeue": `"true"`}, same},
		{"case 2: flag as number", map[string]string{"requeue": `1`}, same},
		{"case 2: flag as list", map[string]string{"requeue": `[1]`}, func(j *Job) { j.Requeue, j.Odd = false, []string{"requeue"} }},
		{"case 2: list as object", map[string]string{"gres_detail": `{}`}, func(j *Job) { j.NodeGPUs = nil }},
		{"case 2: resources as list", map[string]string{"job_resources": `[]`}, same},
		{"case 3: node set from an object", map[string]string{"nodes": ``}, same},
		{"case 3: node set from text", map[string]string{"nodes": ``, "job_resources": `{"nodes":"n[1-2]"}`}, same},
		{"case 3: node set from a list", map[string]string{"nodes": `["n1","n2"]`}, same},
		{"case 5: priority beyond 31 bits", map[string]string{"priority": `{"set":true,"infinite":false,"number":4294901758}`}, func(j *Job) { j.Priority = 4294901758 }},
		{"case 5: priority plain", map[string]string{"priority": `4294901758`}, func(j *Job) { j.Priority = 4294901758 }},
		{"case 5: user id beyond 31 bits", map[string]string{"user_id": `3000000000`}, func(j *Job) { j.UID = 3000000000 }},
		{"case 5: user id like a mark", map[string]string{"user_id": `4294967294`}, func(j *Job) { j.UID = 4294967294 }},
		{"no limit", map[string]string{"time_limit": `{"set":false,"infinite":true,"number":0}`}, func(j *Job) { j.TimeLimit, j.Unlimited = 0, true }},
		{"infinite wins over set", map[string]string{"time_limit": `{"set":true,"infinite":true,"number":60}`}, func(j *Job) { j.TimeLimit, j.Unlimited = 0, true }},
		{"no limit, old mark", map[string]string{"time_limit": `4294967295`}, func(j *Job) { j.TimeLimit, j.Unlimited = 0, true }},
		{"limit not set, old mark", map[string]string{"time_limit": `4294967294`}, func(j *Job) { j.TimeLimit = 0 }},
		{"limit not set", map[string]string{"time_limit": `{"set":false,"infinite":false,"number":7}`}, func(j *Job) { j.TimeLimit = 0 }},
		{"deadline", map[string]string{"deadline": `{"set":true,"number":1795968275}`}, func(j *Job) { j.Deadline = j.End }},
		{"waiting for its begin time", map[string]string{"job_state": `["PENDING"]`, "state_reason": `"BeginTime"`, "eligible_time": `1795968275`},
			func(j *Job) { j.State, j.Reason, j.Eligible, j.Begin = StatePending, "BeginTime", j.End, j.End }},
		{"begin time, not yet looked at", map[string]string{"job_state": `["PENDING"]`, "eligible_time": `1795968275`},
			func(j *Job) { j.State, j.Eligible, j.Begin = StatePending, j.End, j.End }},
		{"begin time has passed and it runs", map[string]string{"eligible_time": `1795964674`},
			func(j *Job) { j.Eligible = j.Submit.Add(time.Second) }},
		{"case 14: het leader", map[string]string{"het_job_id": `{"set":true,"number":6}`}, func(j *Job) { j.HetJobID = 6 }},
		{"case 14: het component", map[string]string{"het_job_id": `{"set":true,"number":5}`, "het_job_offset": `{"set":true,"number":1}`},
			func(j *Job) { j.HetJobID, j.HetJobOffset = 5, 1 }},
		{"array task", map[string]string{"array_job_id": `5`, "array_task_id": `{"set":true,"number":0}`}, func(j *Job) { j.ArrayJobID, j.ArrayTask = 5, 0 }},
		{"array rest", map[string]string{"array_job_id": `6`, "array_task_string": `"1-4%1"`}, func(j *Job) { j.ArrayJobID, j.ArrayTaskString = 6, "1-4%1" }},
		{"case 15: typed count only", map[string]string{"tres_req_str": `"gres/gpu:v100=8"`}, func(j *Job) { j.Request.TRESReq = "gres/gpu:v100=8" }},
		{"case 15: both counts", map[string]string{"tres_req_str": `"gres/gpu:v100=8,gres/gpu=8"`}, func(j *Job) { j.Request.TRESReq = "gres/gpu:v100=8,gres/gpu=8" }},
		{"GPUs not accounted, per node", map[string]string{"tres_req_str": `"cpu=2"`}, func(j *Job) { j.Request.TRESReq = "cpu=2" }},
		{"GPUs not accounted, per job", map[string]string{"tres_req_str": `""`, "tres_per_node": `""`, "tres_per_job": `"gres/gpu:6"`},
			func(j *Job) {
				j.Request.TRESReq, j.Request.TRESPerNode, j.Request.TRESPerJob, j.Request.GPUs, j.Request.GPUType = "", "", "gres/gpu:6", 6, ""
			}},
		{"GPUs not accounted, per task", map[string]string{"tres_req_str": `""`, "tres_per_node": `""`, "tres_per_task": `"gres/gpu=1"`},
			func(j *Job) {
				j.Request.TRESReq, j.Request.TRESPerNode, j.Request.TRESPerTask, j.Request.GPUs, j.Request.GPUType = "", "", "gres/gpu=1", 2, ""
			}},
		{"GPUs not accounted, per socket", map[string]string{"tres_req_str": `""`, "tres_per_node": `""`, "tres_per_socket": `"gres/gpu:1"`},
			func(j *Job) {
				j.Request.TRESReq, j.Request.TRESPerNode, j.Request.TRESPerSocket, j.Request.GPUs, j.Request.GPUType = "", "", "gres/gpu:1", 0, ""
				j.Odd = []string{"tres_per_socket"}
			}},
		{"case 17: two GPU types", map[string]string{"tres_per_node": `"gres/gpu:a:2,gres/gpu:b:2"`},
			func(j *Job) {
				j.Request.TRESPerNode, j.Request.GPUType, j.Odd = "gres/gpu:a:2,gres/gpu:b:2", "", []string{"tres_req_str"}
			}},
		{"case 18: MIG", map[string]string{"tres_per_node": `"gres/gpu:nvidia_h200_nvl_4g.71gb:2"`, "gres_detail": `["gpu:nvidia_h200_nvl_4g.71gb:2(IDX:0-1)","(null)"]`},
			func(j *Job) {
				j.Request.TRESPerNode, j.Request.GPUType, j.Request.OtherGRES = "gres/gpu:nvidia_h200_nvl_4g.71gb:2", "", true
				j.NodeGPUs = []NodeGPUs{{Node: "n1", Type: "nvidia_h200_nvl_4g.71gb", Count: 2, Indices: []int{0, 1}, Other: true}}
			}},
		{"shards", map[string]string{"tres_per_node": `"gres/shard:2"`}, func(j *Job) { j.Request.TRESPerNode, j.Request.GPUType, j.Request.OtherGRES = "gres/shard:2", "", true }},
		{"case 20: null words", map[string]string{"gres_detail": `["(null)","(null)"]`, "tres_alloc_str": `"(null)"`, "tres_req_str": `"(null)"`, "tres_per_node": `"(null)"`, "features": `"(null)"`},
			func(j *Job) {
				j.NodeGPUs, j.AllocGPUs, j.AllocCPUs = nil, 0, 0
				j.Request.TRESReq, j.Request.TRESPerNode, j.Request.GPUs, j.Request.GPUType = "", "", 0, ""
			}},
		{"details for another number of nodes", map[string]string{"gres_detail": `["gpu:v100:4(IDX:0-3)"]`}, func(j *Job) { j.NodeGPUs, j.Odd = nil, []string{"gres_detail"} }},
		{"broken details", map[string]string{"gres_detail": `["gpu:v100:4(IDX:0-3)","gpu:(x"]`}, func(j *Job) { j.NodeGPUs, j.Odd = j.NodeGPUs[:1], []string{"gres_detail"} }},
		{"case 22: broken node list", map[string]string{"excluded_nodes": `"n[1-"`}, func(j *Job) { j.Request.ExcludedNodes, j.Odd = nil, []string{"excluded_nodes"} }},
		{"whole nodes", map[string]string{"shared": `["none"]`}, func(j *Job) { j.Request.Exclusive = true }},
		{"case 25: held after a bad node", map[string]string{"job_state": `["PENDING"]`, "state_reason": `"launch failed requeued held"`, "priority": `0`, "hold": `true`},
			func(j *Job) {
				j.State, j.Reason, j.Priority, j.Held = StatePending, "launch failed requeued held", 0, true
			}},
		{"exit code", map[string]string{"exit_code": `{"return_code":{"set":true,"number":99},"signal":{"id":{"set":true,"number":9}}}`}, func(j *Job) { j.ExitCode, j.ExitSignal = 99, 9 }},
		{"exit code, old number", map[string]string{"exit_code": `25344`}, func(j *Job) { j.ExitCode = 99 }},
		{"cron", map[string]string{"cron": `"0 * * * *"`}, func(j *Job) { j.Cron = true }},
		{"cron by flag", map[string]string{"flags": `["CRON_JOB"]`}, func(j *Job) { j.Cron = true }},
		{"federated", map[string]string{"federation_origin": `"east"`}, func(j *Job) { j.FedOrigin, j.Federated = "east", true }},
		{"salloc", map[string]string{"batch_flag": `false`}, func(j *Job) { j.Batch = false }},
		{"negative count", map[string]string{"tasks": `-1`}, func(j *Job) { j.Request.Tasks, j.Odd = 0, []string{"tasks"} }},
		{"negative time", map[string]string{"start_time": `-5`}, func(j *Job) { j.Start, j.Odd = time.Time{}, []string{"start_time"} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := readJob(with(t, runningJob, tt.members))
			if !ok {
				t.Fatal("the record was lost")
			}
			if d := cmp.Diff(running(tt.want), got); d != "" {
				t.Error(d)
			}
		})
	}
}

// case 50: bytes that are not UTF-8 do not lose the record.
func TestReadJobBytes(t *testing.T) {
	got, ok := readJob(raw(strings.Replace(runningJob, "unisched:class=besteffort", "caf\xe9 \\u0000 \\ud83d", 1)))
	if !ok {
		t.Fatal("the record was lost")
	}
	if d := cmp.Diff(running(func(j *Job) { j.Comment = "caf\ufffd \x00 \ufffd" }), got); d != "" {
		t.Error(d)
	}
}

func TestReadJobWithoutID(t *testing.T) {
	for _, data := range []string{`{}`, `[]`, `null`, `"x"`, `5`, `{"job_id":0}`, `{"job_id":-1}`, `{"job_id":{}}`, `{"job_id":"12+1"}`} {
		if j, ok := readJob(raw(data)); ok {
			t.Errorf("%s: %+v", data, j)
		}
	}
}

// case 2: whatever one field holds, the record keeps its id, and every field
// either reads or is noted.
func TestEveryFieldTolerates(t *testing.T) {
	var fields map[string]raw
	if err := json.Unmarshal([]byte(runningJob), &fields); err != nil {
		t.Fatal(err)
	}
	for field := range fields {
		if field == "job_id" {
			continue
		}
		for _, value := range []string{``, `null`, `{}`, `[]`, `""`, `"x"`, `-1`, `1e400`, `[{}]`, `[[]]`, `{"a":{}}`, `true`, `18446744073709551615`} {
			if j, ok := readJob(with(t, runningJob, map[string]string{field: value})); !ok || j.ID != 6 {
				t.Errorf("%s = %s: lost", field, value)
			}
		}
	}
}

// case 12: the last task of an array has the array's raw id.
func TestRef(t *testing.T) {
	for _, tt := range []struct {
		name   string
		job    Job
		want   string
		shares bool
	}{
		{"plain", Job{ID: 7, ArrayTask: -1}, "7", false},
		{"case 12: task with its own id", Job{ID: 1235, ArrayJobID: 1234, ArrayTask: 1}, "1234_1", false},
		{"case 12: last task", Job{ID: 1234, ArrayJobID: 1234, ArrayTask: 4}, "1234_4", true},
		{"waiting tasks", Job{ID: 1234, ArrayJobID: 1234, ArrayTask: -1, ArrayTaskString: "2-4%1"}, "1234_[2-4]", true},
		{"task 0", Job{ID: 1234, ArrayJobID: 1234, ArrayTask: 0}, "1234_0", true},
	} {
		if got := tt.job.Ref(); got.String() != tt.want || got.SharesID() != tt.shares {
			t.Errorf("%s: %s, %v", tt.name, got, got.SharesID())
		}
	}
}

func TestReadJobState(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     JobState
	}{
		{"plain", `{"job_id":5,"state":["RUNNING"]}`, JobState{ID: 5, Task: -1, State: StateRunning}},
		{"text id", `{"job_id":"5","state":["PENDING","REQUEUED"]}`, JobState{ID: 5, Task: -1, State: StatePending, Flags: []string{"REQUEUED"}}},
		{"task", `{"job_id":"6_3","state":["RUNNING"]}`, JobState{ID: 6, Task: 3, State: StateRunning}},
		{"waiting tasks in one", `{"job_id":"6_[3-5%2]","state":["PENDING"]}`, JobState{ID: 6, Task: -1, State: StatePending}},
		{"odd task", `{"job_id":"6_x","state":["PENDING"]}`, JobState{ID: 6, Task: -1, State: StatePending, Odd: []string{"job_id"}}},
		{"case 14: het id", `{"job_id":"123+1","state":["PENDING"]}`, JobState{ID: 123, Task: -1, State: StatePending, Odd: []string{"job_id"}}},
		{"unknown state", `{"job_id":5,"state":["NEW"]}`, JobState{ID: 5, Task: -1, State: StateUnknown, Flags: []string{"NEW"}, Odd: []string{"job_state"}}},
	} {
		got, ok := readJobState(raw(tt.in))
		if d := cmp.Diff(tt.want, got); d != "" || !ok {
			t.Errorf("%s: %s", tt.name, d)
		}
	}
	for _, in := range []string{`{}`, `5`, `{"job_id":"x"}`, `{"job_id":""}`} {
		if got, ok := readJobState(raw(in)); ok {
			t.Errorf("%s: %+v", in, got)
		}
	}
}

func FuzzReadJob(f *testing.F) {
	f.Add([]byte(runningJob))
	for _, v := range []string{`{}`, `[]`, `{"set":true,"infinite":true,"number":4294967294}`, `"(null)"`} {
		f.Add([]byte(fmt.Sprintf(`{"job_id":1,"nice":%s,"gres_detail":%s,"nodes":%s}`, v, v, v)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		j, ok := readJob(data)
		if q := j.Request; ok && (j.ID <= 0 || q.GPUs < 0 || q.Tasks < 0 || q.Nodes.Min < 0 || q.Nodes.Max < 0 || j.Restarts < 0 || j.ArrayTask < -1 || j.TimeLimit < 0 ||
			j.ArrayJobID < 0 || j.HetJobID < 0 || j.AllocGPUs < 0 || !slices.IsSorted(j.Flags) || !slices.IsSorted(j.Odd)) {
			t.Fatalf("%+v", j)
		}
		for _, n := range j.NodeGPUs {
			if n.Count < 0 || n.Node == "" {
				t.Fatalf("%+v", j.NodeGPUs)
			}
		}
		if again, _ := readJob(data); ok && !cmp.Equal(j, again) {
			t.Fatal(cmp.Diff(j, again))
		}
		if n, ok := readNode(data); ok && len(n.Odd) > 0 && n.Usable {
			t.Fatalf("%+v", n)
		}
		readPartition(data)
		readReservation(data)
		readJobState(data)
	})
}

// case 48: a list is read record by record.
func BenchmarkReadList(b *testing.B) {
	const jobs = 1000
	body := `{"jobs":[` + strings.Repeat(runningJob+",", jobs-1) + runningJob + `],"errors":[]}`
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		n := 0
		if _, err := readAnswer(strings.NewReader(body), "jobs", func(d raw) {
			if _, ok := readJob(d); ok {
				n++
			}
		}); err != nil || n != jobs {
			b.Fatal(n, err)
		}
	}
}
