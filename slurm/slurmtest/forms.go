package slurmtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// A job record of slurmrestd has about 130 members, of which most are numbers in the form of three; the size is theirs, so all of them are here.
var (
	numbers = strings.Fields(`accrue_time array_job_id array_max_tasks billable_tres cpus_per_task deadline delay_boot eligible_time het_job_id
		het_job_offset last_sched_evaluation max_cpus max_nodes tasks_per_tres tasks_per_node tasks_per_board cpus node_count tasks memory_per_node
		minimum_cpus_per_node minimum_tmp_disk_per_node preempt_time preemptable_time pre_sus_time resize_time suspend_time time_minimum`)
	unset = strings.Fields(`array_task_id cores_per_socket cpu_frequency_minimum cpu_frequency_maximum cpu_frequency_governor end_time memory_per_cpu
		sockets_per_node threads_per_core tasks_per_core tasks_per_socket`)
	empty = strings.Fields(`admin_comment array_task_string batch_features burst_buffer burst_buffer_state cluster_features container container_id
		container_type cpus_per_tres cron dependency excluded_nodes extra failed_node features federation_origin federation_siblings_active
		federation_siblings_viable het_job_id_set licenses licenses_allocated mcs_label memory_per_tres network prefer required_nodes resv_name
		scheduled_nodes selinux_context state_description standard_error stderr_expanded system_comment tres_bind tres_freq tres_per_job
		tres_per_socket tres_per_task wckey`)
	zero = strings.Fields(`association_id core_spec memory_update_delay memory_update_margin nice required_switches segment_size sockets_per_board
		maximum_switch_wait_time`)
)

func jobText() string {
	var b strings.Builder
	b.WriteString(`{"account":"research","job_id":@id@,"job_state":["@state@"],"state_reason":"@reason@","comment":"@comment@","nodes":"@nodes@",
"gres_detail":[@detail@],"tres_req_str":"cpu=1,mem=4G,node=1,billing=1,gres/gpu=@gpus@","tres_alloc_str":"@alloc@","tres_per_node":"gres/gpu:@gpus@",
"restart_cnt":@restarts@,"user_name":"alice","user_id":2001,"group_id":2001,"group_name":"alice","mail_user":"alice","name":"train-@id@","partition":"gpu",
"qos":"normal","cluster":"fake","allocating_node":"login1","batch_host":"@nodes@","command":"/home/alice/project/experiments/train.sh",
"current_working_directory":"/home/alice/project/experiments","submit_line":"sbatch --gres=gpu:1 -n1 /home/alice/project/experiments/train.sh",
"standard_input":"/dev/null","stdin_expanded":"/dev/null","standard_output":"/home/alice/%j.out","stdout_expanded":"/home/alice/@id@.out",
"batch_flag":true,"contiguous":false,"hold":false,"reboot":false,"requeue":true,"thread_spec":32766,
"flags":["EXACT_TASK_COUNT_REQUESTED","USING_DEFAULT_ACCOUNT","USING_DEFAULT_QOS"],"job_size_str":[],"mail_type":[],"priority_by_partition":[],
"profile":["NOT_SET"],"shared":[],"start_time":{"set":true,"infinite":false,"number":@start@},"submit_time":{"set":true,"infinite":false,"number":@submit@},
"time_limit":{"set":true,"infinite":false,"number":600},"priority":{"set":true,"infinite":false,"number":4294901000},
"step_id":{"sluid":"s0","job_id":{"set":true,"infinite":false,"number":@id@},"step_het_component":{"set":false,"infinite":false,"number":0},"step_id":"entire"},`)
	for _, name := range []string{"exit_code", "derived_exit_code"} {
		fmt.Fprintf(&b, `%q:{"status":["SUCCESS"],"return_code":{"set":true,"infinite":false,"number":0},"signal":{"id":{"set":false,"infinite":false,"number":0},"name":""}},`, name)
	}
	for _, name := range numbers {
		n := 0
		switch name {
		case "cpus", "tasks", "node_count", "cpus_per_task":
			n = 1
		}
		fmt.Fprintf(&b, `%q:{"set":true,"infinite":false,"number":%d},`, name, n)
	}
	for _, name := range unset {
		fmt.Fprintf(&b, `%q:{"set":false,"infinite":false,"number":0},`, name)
	}
	for _, name := range empty {
		fmt.Fprintf(&b, `%q:"",`, name)
	}
	for _, name := range zero {
		fmt.Fprintf(&b, `%q:0,`, name)
	}
	b.WriteString(`"job_resources":@resources@}`)
	return strings.ReplaceAll(b.String(), "\n", "")
}

var mark = regexp.MustCompile(`@[a-z]+@`)

// cut splits a form at its marks, which stay as parts of their own.
func cut(form string) []string {
	var parts []string
	last := 0
	for _, m := range mark.FindAllStringIndex(form, -1) {
		parts = append(parts, form[last:m[0]], form[m[0]:m[1]])
		last = m[1]
	}
	return append(parts, form[last:])
}

var jobForm = sync.OnceValue(func() []string { return cut(jobText()) })

// prettyJobForm is the same with slurmrestd's white space.
var prettyJobForm = sync.OnceValue(func() []string {
	// Marks outside strings are no JSON: they are numbers for the time being.
	text, marks := jobText(), []string{}
	text = mark.ReplaceAllStringFunc(text, func(m string) string {
		marks = append(marks, m)
		return fmt.Sprintf("9%06d9", len(marks)-1)
	})
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(text), "    ", "  "); err != nil {
		panic(err) // the form is ours
	}
	out := b.String()
	for i, m := range marks {
		out = strings.ReplaceAll(out, fmt.Sprintf("9%06d9", i), m)
	}
	return cut("\n    " + out)
})

// resources is what a running job holds: every core of its node is listed.
func resources(node string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"select_type":["CR_CORE"],"nodes":{"count":1,"select_type":["ONE_ROW"],"list":%q,"whole":false,"allocation":[{"index":0,"name":%q,`+
		`"cpus":{"count":1,"used":0},"memory":{"used":0,"allocated":0},"sockets":[`, node, node)
	for s := range 2 {
		if s > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"index":%d,"cores":[`, s)
		for i := range 16 {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `{"index":%d,"status":["UNALLOCATED"]}`, i)
		}
		b.WriteString("]}")
	}
	b.WriteString(`]}]},"cpus":1,"threads_per_core":{"set":false,"infinite":false,"number":0}}`)
	return b.String()
}

const nodeForm = `{"architecture":"x86_64","burstbuffer_network_address":"","boards":1,"boot_time":{"set":true,"infinite":false,"number":1795963329},` +
	`"cert_flags":[],"cluster_name":"","cores":16,"specialized_cores":0,"cpu_binding":0,"cpu_load":511,"free_mem":{"set":true,"infinite":false,"number":19861},` +
	`"cpus":32,"effective_cpus":32,"specialized_cpus":"","energy":{"average_watts":0,"base_consumed_energy":0,"consumed_energy":0,` +
	`"current_watts":{"set":true,"infinite":false,"number":0},"previous_consumed_energy":0,"last_collected":0},"extra":"","features":[],"active_features":[],` +
	`"gpu_spec":"","gres":"gpu:v100:8(S:0-1)","gres_drained":"N/A","gres_used":"gpu:v100:%d(IDX:%s)","instance_id":"","instance_type":"",` +
	`"last_busy":{"set":true,"infinite":false,"number":1795964648},"mcs_label":"","specialized_memory":0,"name":"%s","next_state_after_reboot":["INVALID"],` +
	`"address":"10.0.0.1","hostname":"%s","state":["%s"],"operating_system":"Linux 6.1.0 #1 SMP","owner":"","partitions":["gpu"],"port":6818,` +
	`"real_memory":512000,"res_cores_per_gpu":0,"comment":"","reason":"","reason_changed_at":{"set":true,"infinite":false,"number":0},"reason_set_by_user":"",` +
	`"resume_after":{"set":true,"infinite":false,"number":0},"reservation":"","suspend_time":{"set":false,"infinite":true,"number":0},"alloc_memory":0,` +
	`"alloc_cpus":1,"alloc_idle_cpus":31,"tres_used":"cpu=1,gres/gpu=1","slurmd_start_time":{"set":true,"infinite":false,"number":1795964629},"sockets":2,` +
	`"threads":1,"temporary_disk":0,"weight":1,"topology":"","tres":"cpu=32,mem=500G,billing=32,gres/gpu=8","version":"26.05.5"}`

const partitionForm = `{"nodes":{"allowed_allocation":"","configured":"n[1-%d]","total":0},"accounts":{"allowed":"","deny":""},"groups":{"allowed":""},` +
	`"qos":{"allowed":"","deny":"","assigned":""},"flags":["DEFAULT"],"partition":{"exclusive":"NO","oversubscribe":"NO","state":["UP"]},"grace_time":0,` +
	`"maximums":{"nodes":{"set":false,"infinite":true,"number":0},"shares":0,"time":{"set":false,"infinite":true,"number":0}},"minimums":{"nodes":0},` +
	`"name":"gpu","preempt_mode":["CLUSTER_GLOBAL"],"priority":{"job_factor":1,"tier":1}}`
