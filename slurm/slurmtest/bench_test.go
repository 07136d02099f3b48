package slurmtest_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"unisched/slurm"
	"unisched/slurm/slurmtest"
)

// TestMain also is the server of the benchmark, in a process of its own, so that what is measured is the reader alone.
func TestMain(m *testing.M) {
	shape := os.Getenv("SLURMTEST_SERVE")
	if shape == "" {
		os.Exit(m.Run())
	}
	var jobs, nodes, pretty, churn int
	if _, err := fmt.Sscanf(shape, "%d %d %d %d", &jobs, &nodes, &pretty, &churn); err != nil {
		panic(err)
	}
	c := slurmtest.New(jobs, nodes)
	c.Pretty = pretty == 1
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println("http://" + l.Addr().String())
	next := 1
	mux := http.NewServeMux()
	mux.HandleFunc("/churn", func(http.ResponseWriter, *http.Request) { // some jobs end, as many begin
		c.Change(func(jobs []slurmtest.Job, nodes []slurmtest.Node) ([]slurmtest.Job, []slurmtest.Node) {
			for range churn {
				jobs[next%len(jobs)].State = map[string]string{"RUNNING": "COMPLETED", "PENDING": "RUNNING", "COMPLETED": "PENDING"}[jobs[next%len(jobs)].State]
				next += 7
			}
			return jobs, nodes
		})
	})
	mux.Handle("/", c)
	go func() { io.Copy(io.Discard, os.Stdin); os.Exit(0) }() // ends with its parent
	panic(http.Serve(l, mux))
}

// serve starts the server and returns its address.
func serve(b *testing.B, jobs, nodes, pretty, churn int) string {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("SLURMTEST_SERVE=%d %d %d %d", jobs, nodes, pretty, churn))
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peak is the most memory that the process held since the last reset, in MB.
func peak(b *testing.B) float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				b.Fatal(err)
			}
			return float64(kb) / 1024
		}
	}
	b.Fatal("no VmHWM")
	return 0
}

func resetPeak() {
	debug.FreeOSMemory()
	os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
}

// BenchmarkFullList reads all of 10,000 jobs and 1,000 nodes.
func BenchmarkFullList(b *testing.B) {
	for _, form := range []string{"compact", "pretty"} {
		b.Run(form, func(b *testing.B) {
			pretty := 0
			if form == "pretty" {
				pretty = 1
			}
			c, err := slurm.New(slurm.Options{URL: serve(b, 10000, 1000, pretty, 0)})
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			var kept slurm.State
			read := func() {
				s, err := c.State(b.Context(), time.Unix(1795970000, 0))
				if err != nil || len(s.Jobs) != 10000 || len(s.Nodes) != 1000 || len(s.Odd) > 0 {
					b.Fatal(len(s.Jobs), len(s.Nodes), s.Odd, err)
				}
				kept = s
			}
			read()
			resetPeak()
			before := cpu(b)
			for b.Loop() {
				read()
			}
			b.ReportMetric((cpu(b)-before).Seconds()/float64(b.N), "cpu-s/poll")
			b.ReportMetric(peak(b), "peak-MB")
			_ = kept
		})
	}
}

// BenchmarkChanges is the steady state of 10,000 jobs and 1,000 nodes: 50 jobs begin, end or come between two looks, ten of ours are kept fresh.
func BenchmarkChanges(b *testing.B) {
	url := serve(b, 10000, 1000, 0, 50)
	c, err := slurm.New(slurm.Options{URL: url})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	p := slurm.NewPoller(c, slurm.PollOptions{Clock: time.Now, Share: 1000, Fresh: func(j *slurm.Job) bool { return j.ID <= 10 }})
	var kept slurm.State
	read := func() {
		resp, err := http.Get(url + "/churn")
		if err != nil {
			b.Fatal(err)
		}
		resp.Body.Close()
		s, err := p.State(b.Context(), time.Now())
		if err != nil || len(s.Jobs) != 10000 || len(s.Nodes) != 1000 || len(s.Odd) > 0 {
			b.Fatal(len(s.Jobs), len(s.Nodes), s.Odd, err)
		}
		kept = s
	}
	read()
	read()
	resetPeak()
	before := cpu(b)
	for b.Loop() {
		read()
	}
	b.ReportMetric((cpu(b)-before).Seconds()/float64(b.N), "cpu-s/poll")
	b.ReportMetric(peak(b), "peak-MB")
	b.ReportMetric(float64(p.Counts().Records)/float64(p.Counts().Delta), "records/poll")
	_ = kept
}
