package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"unisched/contrib/lab"
)

// faultEvery is the pace of the faults; one may still be mended when the next comes.
const faultEvery = 20 * time.Second

// soakJobs is how many jobs a soak submits, over the first three quarters of its time.
const soakJobs = 40

// TestSoak runs a busy cluster for UNISCHED_SOAK (30m) with a fault every 20 s, then takes the daemon's hand off everything and lets plain Slurm
// finish. Every job must end as it should, none may have lost an iteration that it had saved, and a minute after the release nothing may be left of
// the daemon's doing. UNISCHED_SOAK_SEED chooses another course.
func TestSoak(t *testing.T) {
	text := os.Getenv("UNISCHED_SOAK")
	if text == "" {
		t.Skip("long test: run make soak")
	}
	length := must(time.ParseDuration(text))(t)
	seed, _ := strconv.ParseUint(os.Getenv("UNISCHED_SOAK_SEED"), 10, 64) // 0 is a seed as well
	l := up(t, lab.Options{Nodes: 3})
	s := &soak{t: t, l: l, rng: rand.New(rand.NewPCG(seed, 1)), jobs: map[int]*soaked{}, counts: map[string]int{}}

	began := time.Now()
	nextFault, submitted := began.Add(faultEvery), 0
	for now := began; now.Sub(began) < length; now = time.Now() {
		s.mend(now)
		if due := int(float64(soakJobs) * min(1, float64(now.Sub(began))/(0.75*float64(length)))); submitted <= due && submitted < soakJobs && len(s.broken) == 0 {
			s.submit()
			submitted++
		}
		if !now.Before(nextFault) {
			nextFault = nextFault.Add(faultEvery)
			s.fault(now)
		}
		s.pause(300 * time.Millisecond)
	}
	s.mendAll()
	for ; submitted < soakJobs; submitted++ {
		s.submit()
	}
	s.pause(5 * time.Second) // until the daemon has seen the last ones: it takes up what comes after a release
	preempted := s.preemptions()

	out, code, err := l.Unisched(t.Context(), "release", "--all")
	if err != nil || code != 0 {
		t.Errorf("release --all: exit %d, %v: %s", code, err, out)
	}
	released := time.Now()
	check(t, l.WaitFor(within(t, time.Minute), "nothing left behind after release --all", func() (bool, string, error) {
		left, err := l.Leftovers()
		return len(left) == 0, strings.Join(left, "\n"), err
	}))
	clean := time.Since(released)
	s.finish()
	t.Logf("SOAK Slurm %s, %v, %d jobs: faults %v; %d preemptions, %d restarts; clean %.0f s after the release; ends %v",
		os.Getenv("UNISCHED_E2E"), length, soakJobs, sorted(s.counts), preempted, s.restarts, clean.Seconds(), sorted(s.ends))
}

// soaked is a job of the soak.
type soaked struct {
	user      string
	cancelled bool
}

// soak is a run of it: what is broken at the moment and how to mend it, and what became of the jobs.
type soak struct {
	t        *testing.T
	l        *lab.Lab
	rng      *rand.Rand
	jobs     map[int]*soaked
	order    []int // job ids as submitted
	broken   []mending
	counts   map[string]int
	ends     map[string]int
	restarts int
}

type mending struct {
	at  time.Time
	do  func() error
	how string
}

func (s *soak) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.t.Context().Done():
		s.t.Fatal(context.Cause(s.t.Context()))
	}
}

// submit draws a job: of any class and size, preemptible or not, or a plain one.
func (s *soak) submit() {
	s.t.Helper()
	user := []string{"alice", "bob", "carol"}[s.rng.IntN(3)]
	iters := 600 + s.rng.IntN(1800) // so long that the cluster is full
	asked := [][]string{gpus(1, 20), gpus(1, 20), gpus(2, 20), gpus(4, 20), gpus(4, 20, "--nodes=2")}[s.rng.IntN(5)]
	wish := "unisched:stop=iters:" + itoa(iters)
	if s.rng.IntN(6) > 0 {
		wish += ",ckpt=USR1+99"
	}
	switch s.rng.IntN(8) {
	case 0, 1:
		wish += fmt.Sprintf(",class=strict,deadline=now+%ds", iters/10+60+s.rng.IntN(200))
	case 2:
		wish += fmt.Sprintf(",class=soft,deadlines=now+%ds:100/now+%ds:40", iters/10+90, iters/10+240)
	case 3:
		wish += ",profile=skip"
	case 4:
		wish = ""
	}
	j := lab.Digits(wish, asked, append(training(iters), "--ckpt-every", "5")...)
	id := submit(s.t, s.l, user, j)
	s.jobs[id] = &soaked{user: user}
	s.order = append(s.order, id)
	// A slurmctld that is killed forgets jobs younger than about 5 s.
	s.broken = append(s.broken, mending{time.Now().Add(7 * time.Second), func() error { return nil }, ""})
}

// mend does the repairs that are due.
func (s *soak) mend(now time.Time) {
	s.t.Helper()
	s.broken = slices.DeleteFunc(s.broken, func(m mending) bool {
		if now.Before(m.at) {
			return false
		}
		if err := m.do(); err != nil {
			s.t.Errorf("soak: %s: %v", m.how, err)
		}
		return true
	})
}

func (s *soak) mendAll() {
	s.t.Helper()
	for len(s.broken) > 0 {
		s.mend(time.Now())
		s.pause(200 * time.Millisecond)
	}
	s.mend(time.Now())
}

// breaking does something and mends it a while later.
func (s *soak) breaking(now time.Time, name string, breakIt, mendIt func() error, least, most time.Duration) {
	s.t.Helper()
	s.counts[name]++
	if err := breakIt(); err != nil {
		s.t.Errorf("soak: %s: %v", name, err)
	}
	s.broken = append(s.broken, mending{now.Add(least + time.Duration(s.rng.Int64N(int64(most-least)))), mendIt, "after " + name})
}

// fault draws one of the faults. While something is still broken only the daemon is killed, since a user's command needs a working slurmctld.
func (s *soak) fault(now time.Time) {
	s.t.Helper()
	l := s.l
	service := func(verb, name string) func() error { return func() error { return l.Service(verb, name) } }
	as := func(user string, argv ...string) func() error {
		return func() error { _, err := l.Exec(user, argv...); return err }
	}
	kinds := []string{"daemon killed", "daemon killed", "slurmctld killed", "slurmrestd away", "token expired", "node down", "job cancelled", "job held", "job modified"}
	kind := kinds[s.rng.IntN(len(kinds))]
	if len(s.broken) > 0 && l.Alive() {
		kind = kinds[0]
	}
	switch kind {
	case "daemon killed":
		if !l.Alive() {
			return
		}
		s.breaking(now, kind, l.KillDaemon, func() error { return l.StartDaemon(s.t.Context()) }, time.Second, 8*time.Second)
	case "slurmctld killed":
		s.breaking(now, kind, service("kill9", "slurmctld"), service("start", "slurmctld"), time.Second, 6*time.Second)
	case "slurmrestd away":
		s.breaking(now, kind, service("stop", "slurmrestd"), service("start", "slurmrestd"), time.Second, 12*time.Second)
	case "token expired":
		s.breaking(now, kind, func() error { return l.Token(time.Second) }, func() error { return l.Token(time.Hour) }, 2*time.Second, 10*time.Second)
	case "node down":
		n := fmt.Sprintf("nodename=n%d", 1+s.rng.IntN(3))
		s.breaking(now, kind, as("root", "scontrol", "update", n, "state=down", "reason=soak"), func() error {
			err := as("root", "scontrol", "update", n, "state=resume")()
			if err != nil && strings.Contains(err.Error(), "Invalid node state") { // a slurmctld that was killed has forgotten it
				return nil
			}
			return err
		}, 3*time.Second, 15*time.Second)
	default:
		s.meddle(now, kind)
	}
}

// meddle is what users do with their own jobs.
func (s *soak) meddle(now time.Time, kind string) {
	s.t.Helper()
	queue := must(s.l.Squeue())(s.t)
	s.rng.Shuffle(len(queue), func(i, j int) { queue[i], queue[j] = queue[j], queue[i] })
	for _, q := range queue {
		j := s.jobs[q.ID]
		if j == nil || j.cancelled || q.State != "PENDING" && q.State != "RUNNING" {
			continue
		}
		id := itoa(q.ID)
		command := func(argv ...string) error { _, err := s.l.Exec(j.user, argv...); return err }
		switch {
		case kind == "job cancelled" && s.counts[kind] < soakJobs/8:
			j.cancelled = true
			s.counts[kind]++
			check(s.t, command("scancel", id))
			return
		case kind == "job held" && q.State == "PENDING":
			s.breaking(now, kind, func() error { return command("scontrol", "hold", id) }, func() error {
				// It may have ended or started meanwhile: then there is nothing to let go.
				if now, err := s.l.Squeue(); err != nil || !slices.ContainsFunc(now, func(x lab.Queued) bool { return x.ID == q.ID && x.State == "PENDING" }) {
					return err
				}
				return command("scontrol", "release", id)
			}, 3*time.Second, 15*time.Second)
			return
		case kind == "job modified" && q.State == "PENDING":
			s.counts[kind]++
			check(s.t, command("scontrol", "update", "jobid="+id, []string{"timelimit=19", "nice=50", "name=renamed"}[s.rng.IntN(3)]))
			return
		}
	}
}

func (s *soak) preemptions() int {
	s.t.Helper()
	n := 0
	for _, v := range must(s.l.Jobs(within(s.t, time.Minute)))(s.t) {
		n += v.Preemptions
	}
	return n
}

var startOrSave = regexp.MustCompile(`(?m)^(start|checkpoint|end) iter=(\d+)`)

// finish waits for the end of every job and judges it by accounting and by what it printed itself.
func (s *soak) finish() {
	s.t.Helper()
	s.ends = map[string]int{}
	for _, id := range s.order {
		j := s.jobs[id]
		var end lab.Accounted
		err := s.l.WaitFor(within(s.t, 15*time.Minute), "job "+itoa(id)+" to end", func() (bool, string, error) {
			var err error
			end, err = s.l.Sacct(id)
			return !end.End.IsZero() && !slices.Contains([]string{"PENDING", "RUNNING", "REQUEUED", "RESIZING", "SUSPENDED"}, end.State), end.State, err
		})
		if err != nil {
			s.t.Error(err)
			continue
		}
		state, _, _ := strings.Cut(end.State, " ")
		s.ends[state]++
		if want := map[bool]string{true: "CANCELLED", false: "COMPLETED"}[j.cancelled]; state != want && !(j.cancelled && state == "COMPLETED") {
			out, _ := s.l.Output(j.user, id)
			s.t.Errorf("job %d of %s ended %s (exit %d), want %s:\n%s", id, j.user, end.State, end.Exit, want, tail(out, 30))
		}
		out, err := s.l.Output(j.user, id)
		if err != nil && !(j.cancelled && os.IsNotExist(err)) {
			s.t.Error(err)
		}
		saved, ended := 0, false
		for i, m := range startOrSave.FindAllStringSubmatch(out, -1) {
			n, _ := strconv.Atoi(m[2])
			switch m[1] {
			case "checkpoint":
				saved = n
			case "start":
				if i > 0 {
					s.restarts++
				}
				if n < saved {
					s.t.Errorf("job %d began again at iteration %d, it had saved %d:\n%s", id, n, saved, tail(out, 40))
				}
			case "end":
				ended = true
			}
		}
		if state == "COMPLETED" && !ended {
			s.t.Errorf("job %d is COMPLETED and did not finish its training:\n%s", id, tail(out, 40))
		}
	}
	if left := must(s.l.Leftovers())(s.t); len(left) > 0 {
		s.t.Errorf("left behind in Slurm:\n%s", strings.Join(left, "\n"))
	}
}

// sorted prints counts in a fixed order.
func sorted(counts map[string]int) string {
	var all []string
	for k, n := range counts {
		all = append(all, fmt.Sprintf("%s %d", k, n))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
