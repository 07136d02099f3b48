package trace_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/bridge/sim/trace"
	"unisched/planner"
)

func read(t *testing.T, format, text string) trace.Trace {
	t.Helper()
	tr, err := trace.Read(strings.NewReader(text), format, trace.Options{Seed: 1, GPUs: 64, Days: 1})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

const chronusHead = "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,expect_value_list,best_effort,job_type\n"

func TestReaders(t *testing.T) {
	min := time.Minute
	for _, c := range []struct {
		name, format, text string
		jobs               []trace.Job
		odd                []trace.Odd
	}{
		{"chronus: minutes, tiers on the scale of 100, num_gpu 0 counted", "chronus", chronusHead +
			"0,a,4,12,600,vgg16,10,6,20-24-30-40,10-8-5-2,0,soft\n1,b,0,3,9,vgg16,5,2,9,10,0,strict\n2,b,1,10,60,alexnet,30,5,2,10,1,best\n", []trace.Job{
			{ID: "2", User: "b", Account: "b", GPUs: 1, Duration: 30 * min, Iterations: 180, Model: "alexnet", Class: planner.BestEffort},
			{ID: "0", User: "a", Account: "a", GPUs: 4, Submit: 2 * min, Duration: 10 * min, Iterations: 600, Model: "vgg16", Class: planner.Soft,
				Tiers: []trace.Tier{{After: 20 * min, Value: 100}, {After: 24 * min, Value: 80}, {After: 30 * min, Value: 50}, {After: 40 * min, Value: 20}}},
		}, []trace.Odd{{What: "no GPUs: left out", Rows: 1, First: 3}}},
		{"philly: wall times, any order, no run time counted", "philly", "timestamp,duration,num_gpus,gpu_time,cluster\n" +
			"2017-10-09 07:01:55,66.0,1,66.0,c\n2017-10-09 07:00:55,0,1,0,c\n2017-10-09 07:00:00,60.0,2,120.0,c\n", []trace.Job{
			{ID: "p4", User: "c", Account: "c", GPUs: 2, Duration: min, Iterations: 60, Class: planner.BestEffort},
			{ID: "p2", User: "c", Account: "c", GPUs: 1, Submit: 115 * time.Second, Duration: 66 * time.Second, Iterations: 66, Class: planner.BestEffort},
		}, []trace.Odd{{What: "no run time: left out", Rows: 1, First: 3}}},
		{"itp: seconds", "itp", "job_id,submission_time,duration,num_gpu\nx,1932025,2429,64\n", []trace.Job{
			{ID: "x", GPUs: 64, Duration: 2429 * time.Second, Iterations: 2429, Class: planner.BestEffort}}, nil},
		{"helios: CPU jobs counted", "helios", "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n" +
			"7,u1,vc1,8,64,1,COMPLETED,2020-04-01 00:00:04,2020-04-01 00:00:05,2020-04-01 01:00:05,3600,1\n8,u1,vc1,0,64,1,COMPLETED,2020-04-01 00:00:04,x,x,3600,1\n",
			[]trace.Job{{ID: "7", User: "u1", Account: "vc1", GPUs: 8, Duration: time.Hour, Iterations: 3600, Class: planner.BestEffort}},
			[]trace.Odd{{What: "no GPUs: left out", Rows: 1, First: 3}}},
		{"sacct: steps left out, our comment read", "sacct", "JobID|User|Account|Submit|Elapsed|State|ReqTRES|AllocTRES|Comment\n" +
			"5|ann|ml|2026-11-30T08:00:00|1-01:00:00|COMPLETED|billing=8,cpu=8,gres/gpu=2,node=1||unisched:class=strict,deadline=now+30h\n" +
			"5.batch|||2026-11-30T08:00:00|01:00:00|COMPLETED||cpu=8|\n6|bob|ml|2026-11-30T09:00:00|00:10:00|FAILED||cpu=1,gres/gpu=1,gres/gpu:v100=1|unisched:class=what\n",
			[]trace.Job{
				{ID: "5", User: "ann", Account: "ml", GPUs: 2, Duration: 25 * time.Hour, Iterations: 90000, Class: planner.Strict, Tiers: []trace.Tier{{After: 30 * time.Hour, Value: 100}}},
				{ID: "6", User: "bob", Account: "ml", GPUs: 1, Submit: time.Hour, Duration: 10 * min, Iterations: 600, Class: planner.BestEffort},
			}, []trace.Odd{{What: "a step or part of a heterogeneous job: left out", Rows: 1, First: 3}, {What: "comment not understood: taken as best effort", Rows: 1, First: 4}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := read(t, c.format, c.text)
			if d := cmp.Diff(c.jobs, tr.Jobs); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(append([]trace.Odd{}, c.odd...), tr.Odd); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestReadersRefuse(t *testing.T) {
	for _, c := range []struct{ name, format, text, want string }{
		{"unknown format", "excel", "", "none of"},
		{"empty", "itp", "", "line 1: empty file"},
		{"another format", "philly", chronusHead, `line 1: no column "timestamp"`},
		{"no number", "itp", "job_id,submission_time,duration,num_gpu\na,1,2,3\nb,1,two,3\n", `line 3: duration: "two" is no number`},
		{"not finite", "itp", "job_id,submission_time,duration,num_gpu\na,1,Inf,3\n", "line 2: duration"},
		{"half a GPU", "itp", "job_id,submission_time,duration,num_gpu\na,1,2,0.5\n", "line 2: num_gpu"},
		{"below zero", "itp", "job_id,submission_time,duration,num_gpu\na,-1,2,1\n", "line 2: submission_time"},
		{"short row", "itp", "job_id,submission_time,duration,num_gpu\na,1\n", `line 2: num_gpu: ""`},
		{"chronus: lists that differ", "chronus", chronusHead + "0,a,4,12,600,vgg16,10,6,20-24,10,0,soft\n", "line 2: expect_time_list"},
		{"chronus: deadlines that fall", "chronus", chronusHead + "0,a,4,12,600,vgg16,10,6,24-20,10-8,0,soft\n", "must rise"},
		{"chronus: kind", "chronus", chronusHead + "0,a,4,12,600,vgg16,10,6,24,10,0,odd\n", "line 2: job_type"},
		{"philly: time", "philly", "timestamp,duration,num_gpus\nyesterday,1,1\n", "line 2: timestamp"},
		{"native: unknown member", "unisched", `{"id":"a","gpus":1,"submit_s":0,"duration_s":1,"colour":1}`, "line 1"},
		{"native: strict without a deadline", "unisched", `{"id":"a","gpus":1,"submit_s":0,"duration_s":1,"class":"strict"}`, "line 1: deadlines"},
		{"a line without end", "itp", strings.Repeat("x", 100_000), "line 1: bufio.Scanner: token too long"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := trace.Read(strings.NewReader(c.text), c.format, trace.Options{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
	if _, err := trace.Read(strings.NewReader("a,b\n"), "itp", trace.Options{}); !errors.Is(err, trace.ErrFormat) {
		t.Errorf("%v is not ErrFormat", err)
	}
}

// TestNativeRoundTrip writes generated jobs and reads them back.
func TestNativeRoundTrip(t *testing.T) {
	tr := read(t, "helios-like", "id,gpu_num,avg_run_time_gpu,med_run_time_gpu\nVenus,1022,13040.598,204.0\n")
	tr, err := tr.Workload("mix2", 3, 5*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	tr.Jobs[0].Counts, tr.Jobs[0].Checkpoint, tr.Jobs[0].Resume, tr.Jobs[0].Fixed = []int{1, 2}, time.Second, 3*time.Second, true
	var b bytes.Buffer
	if err := trace.Write(&b, tr.Jobs); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(tr.Jobs, read(t, "unisched", b.String()).Jobs); d != "" {
		t.Error(d)
	}
}

// TestWorkload checks the shares and the rules of the generators.
func TestWorkload(t *testing.T) {
	tr := read(t, "helios-like", "id,gpu_num,avg_run_time_gpu,med_run_time_gpu\nVenus,1022,13040.598,204.0\n")
	if load := tr.GPUTime() / 86400 / 64; load < 0.95 || load > 9 {
		t.Errorf("load %.2f, want about 1", load)
	}
	unit := 5 * time.Minute
	for _, c := range []struct {
		kind         string
		strict, soft float64
	}{{"strict", 1, 0}, {"mix1", 0.7, 0}, {"mix2", 0.3, 0.6}} {
		w, err := tr.Workload(c.kind, 1, unit)
		if err != nil {
			t.Fatal(err)
		}
		n := map[planner.Class]float64{}
		metrics := 0.0
		for _, j := range w.Jobs {
			n[j.Class] += 1 / float64(len(w.Jobs))
			if j.Metric != nil {
				metrics += 1 / float64(len(w.Jobs))
				if m := float64(j.Metric.Max) / float64(j.Iterations); m < 1.2 || m > 2.1 {
					t.Errorf("job %s: maximum %.2f times the iterations", j.ID, m)
				}
			}
			if !j.Class.SLO() {
				continue
			}
			if first := j.Tiers[0].After; first < j.Duration+2*unit || first > max(2*j.Duration, j.Duration+2*unit)+time.Second || j.Tiers[0].Value != 100 {
				t.Errorf("job %s: deadline %v for %v", j.ID, first, j.Duration)
			}
		}
		near := func(got, want float64) bool { return got > want-0.06 && got < want+0.06 }
		if !near(n[planner.Strict], c.strict) || !near(n[planner.Soft], c.soft) || !near(metrics, 0.2) {
			t.Errorf("%s: %v, %.2f on a metric", c.kind, n, metrics)
		}
		again, _ := tr.Workload(c.kind, 1, unit)
		if d := cmp.Diff(w.Jobs, again.Jobs); d != "" {
			t.Error("the same seed gives another workload")
		}
	}
	if _, err := tr.Workload("mix9", 1, unit); err == nil {
		t.Error("mix9 is a workload")
	}
}

func TestBetween(t *testing.T) {
	tr := read(t, "itp", "job_id,submission_time,duration,num_gpu\na,100,9,1\nb,160,9,1\nc,220,9,1\n").Between(time.Minute, 2*time.Minute)
	if len(tr.Jobs) != 1 || tr.Jobs[0].ID != "b" || tr.Jobs[0].Submit != 0 {
		t.Errorf("got %v", tr.Jobs)
	}
}

func FuzzRead(f *testing.F) {
	for i, s := range []string{"job_id,submission_time,duration,num_gpu\na,1,2,3\n", chronusHead + "0,a,4,12,600,vgg16,10,6,20-24-30-40,10-8-5-2,0,soft\n",
		"timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,66.0,1,66.0,c\n", `{"id":"a","gpus":1,"submit_s":0,"duration_s":1}`,
		"JobID|Submit|ElapsedRaw|AllocTRES|Comment\n5|2026-11-30T08:00:00|60|gres/gpu=2|unisched:class=strict,deadline=now+1h\n",
		"id,gpu_num,avg_run_time_gpu,med_run_time_gpu\nVenus,8,13040.598,204.0\n"} {
		f.Add(uint8(i), s)
	}
	f.Fuzz(func(t *testing.T, which uint8, text string) {
		formats := trace.Formats()
		format := formats[int(which)%len(formats)]
		tr, err := trace.Read(strings.NewReader(text), format, trace.Options{GPUs: 8, Days: 0.1})
		if err != nil {
			return
		}
		if tr, err = tr.Workload("mix2", 1, 5*time.Minute); err != nil {
			t.Fatal(err)
		}
		for i, j := range tr.Jobs {
			if j.GPUs <= 0 || j.Duration <= 0 || j.Iterations <= 0 || j.Submit < 0 || i > 0 && j.Submit < tr.Jobs[i-1].Submit ||
				j.Duration/time.Duration(j.Iterations) > trace.LongestIteration {
				t.Fatalf("job %+v", j)
			}
			for k, d := range j.Tiers {
				if d.After <= 0 || k > 0 && d.After <= j.Tiers[k-1].After {
					t.Fatalf("job %+v", j)
				}
			}
		}
	})
}
