// Command body is the training script of the fidelity experiment: it behaves as its spec says (ready, iterations, metric, checkpoint and exit code on
// USR1) and sleeps instead of computing, so that hundreds of them fit on a small machine. It is started by sbatch with exec, with the spec as its only
// argument, and keeps its checkpoint beside its output.
//
// It refuses to know more than the job: which node, which plan, which cluster. It writes a log of its own instants, which the experiment reads.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"unisched/contrib/fidelity/job"
	"unisched/hooks/progress"
)

// requeueExit is the test cluster's RequeueExit.
const requeueExit = 99

type body struct {
	job.Spec
	restart int
	ckpt    string
	out     *os.File // progress lines, nil: nobody listens
	log     *os.File
}

func main() {
	began := time.Now()
	asked := make(chan os.Signal, 4)
	signal.Notify(asked, syscall.SIGUSR1)
	code, err := run(began, asked)
	if err != nil {
		fmt.Fprintln(os.Stderr, "body:", err)
		code = 1
	}
	os.Exit(code)
}

func run(began time.Time, asked <-chan os.Signal) (int, error) {
	if len(os.Args) != 2 {
		return 64, fmt.Errorf("want the spec as the only argument")
	}
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		return 1, err
	}
	s, err := job.Parse(string(text))
	if err != nil {
		return 1, err
	}
	b := &body{Spec: s, restart: number("SLURM_RESTART_COUNT", 0), ckpt: os.Args[1] + ".ckpt"}
	if b.log, err = os.OpenFile(os.Args[1]+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
		return 1, err
	}
	if path := os.Getenv("UNISCHED_PROGRESS"); path != "" {
		if b.out, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "body: nobody listens:", err)
		}
	}
	return b.train(began, asked)
}

func (b *body) train(began time.Time, asked <-chan os.Signal) (int, error) {
	nodes := number("SLURM_JOB_NUM_NODES", 1)
	gpus := b.GPUs
	if os.Getenv("SLURM_JOB_PARTITION") == "profile" {
		gpus = number("SLURM_GPUS_ON_NODE", 1) * nodes
	}
	saved := b.saved()
	b.note(began, "script", saved)
	wait := b.Ready
	if saved > 0 {
		wait += b.ResumeOn(gpus)
	}
	time.Sleep(time.Until(began.Add(wait)))
	step, since := b.Step(gpus, nodes, b.restart), time.Now()
	at := func(now time.Time) int64 { return min(saved+int64(now.Sub(since)/step), b.Iterations) }
	b.note(since, "ready", saved)
	b.say(progress.Line{Kind: progress.Ready, HasIter: true, Iter: saved, Resumed: saved > 0})
	end := time.NewTimer(time.Duration(max(b.Iterations-saved, 0)) * step)
	gap := b.Every / 10
	tick := time.NewTimer(gap)
	for {
		select {
		case <-asked:
			n := at(time.Now())
			b.note(time.Now(), "signal", n)
			b.say(progress.Line{Kind: progress.Signal, Signal: "USR1"})
			time.Sleep(b.Save)
			if err := os.WriteFile(b.ckpt, []byte(strconv.FormatInt(n, 10)), 0o644); err != nil {
				return 1, err
			}
			b.say(progress.Line{Kind: progress.Checkpoint, HasIter: true, Iter: n, Seconds: b.Save.Seconds()})
			b.note(time.Now(), "saved", n)
			return requeueExit, nil
		case now := <-tick.C:
			b.report(at(now))
			gap = min(2*gap, b.Every)
			tick.Reset(gap)
		case <-end.C:
			b.report(b.Iterations)
			b.say(progress.Line{Kind: progress.Done, HasIter: true, Iter: b.Iterations, Reason: "iters"})
			b.note(time.Now(), "done", b.Iterations)
			return 0, nil
		}
	}
}

// saved is the iteration of the checkpoint, 0 without one.
func (b *body) saved() int64 {
	text, err := os.ReadFile(b.ckpt)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n
}

func (b *body) report(iter int64) {
	l := progress.Line{Kind: progress.Progress, HasIter: true, Iter: iter}
	if b.Metric != nil {
		l.Metrics = []progress.Metric{{Name: job.MetricName, Value: b.Metric.Value(iter, b.Iterations)}}
	}
	b.say(l)
}

func (b *body) say(l progress.Line) {
	if b.out == nil {
		return
	}
	l.Time = time.Now()
	if text, err := l.JSON(); err == nil {
		_, _ = b.out.Write(append(text, '\n'))
	}
}

// note writes an instant into the experiment's log: run, what, Unix milliseconds, iteration, node list.
func (b *body) note(at time.Time, what string, iter int64) {
	fmt.Fprintf(b.log, "%d %s %d %d %s\n", b.restart, what, at.UnixMilli(), iter, filepath.Base(os.Getenv("SLURM_JOB_NODELIST")))
}

func number(name string, or int) int {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		return or
	}
	return n
}
