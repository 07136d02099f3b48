package slurmtest_test

import (
	"net/http"
	"os"
	"testing"
	"time"

	"unisched/slurm"
	"unisched/slurm/slurmtest"
)

func TestMain(m *testing.M) {
	slurmtest.MaybeServe()
	os.Exit(m.Run())
}

func serve(b *testing.B, l slurmtest.Load) string {
	b.Helper()
	url, stop, err := l.Start()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(stop)
	return url
}

// BenchmarkFullList reads all of 10,000 jobs and 1,000 nodes.
func BenchmarkFullList(b *testing.B) {
	for _, form := range []string{"compact", "pretty"} {
		b.Run(form, func(b *testing.B) {
			c, err := slurm.New(slurm.Options{URL: serve(b, slurmtest.Load{Jobs: 10000, Nodes: 1000, Pretty: form == "pretty"})})
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
			slurmtest.ResetPeak()
			before := slurmtest.CPU()
			for b.Loop() {
				read()
			}
			b.ReportMetric((slurmtest.CPU()-before).Seconds()/float64(b.N), "cpu-s/poll")
			b.ReportMetric(slurmtest.Peak(), "peak-MB")
			_ = kept
		})
	}
}

// BenchmarkChanges is the steady state of 10,000 jobs and 1,000 nodes: 50 jobs begin, end or come between two looks, ten of ours are kept fresh.
func BenchmarkChanges(b *testing.B) {
	url := serve(b, slurmtest.Load{Jobs: 10000, Nodes: 1000, Churn: 50})
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
	slurmtest.ResetPeak()
	before := slurmtest.CPU()
	for b.Loop() {
		read()
	}
	b.ReportMetric((slurmtest.CPU()-before).Seconds()/float64(b.N), "cpu-s/poll")
	b.ReportMetric(slurmtest.Peak(), "peak-MB")
	b.ReportMetric(float64(p.Counts().Records)/float64(p.Counts().Delta), "records/poll")
	_ = kept
}
