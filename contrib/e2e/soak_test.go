package e2e

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"unisched/contrib/lab"
)

// faultEvery is the pace of the faults; one may still be mended when the next comes.
const faultEvery = 20 * time.Second

// soakJobs is how many jobs a soak of half an hour submits, over nine tenths of its time: many are alive at the release. That is a little more than three
// nodes of four GPUs can do.
const soakJobs = 40

// TestSoak runs a busy cluster for UNISCHED_SOAK (30m) with a fault every 20 s, then takes the daemon's hand off everything and lets plain Slurm
// finish. Every job must end as it should, with the weights of an undisturbed training; none may have lost an iteration that it had saved, nor any to
// being asked to leave; and a minute after the release nothing may be left of the daemon's doing. UNISCHED_SOAK_SEED chooses another course.
func TestSoak(t *testing.T) {
	text := os.Getenv("UNISCHED_SOAK")
	if text == "" {
		t.Skip("long test: run make soak")
	}
	length := must(time.ParseDuration(text))(t)
	seed, _ := strconv.ParseUint(os.Getenv("UNISCHED_SOAK_SEED"), 10, 64) // 0 is a seed as well
	l := up(t, lab.Options{Nodes: 3})
	s := &soak{t: t, l: l, began: time.Now(), rng: rand.New(rand.NewPCG(seed, 1)), jobs: map[int]*soaked{}, counts: map[string]int{}}

	s.most = int(math.Ceil(soakJobs * length.Minutes() / 30))
	nextFault, submitted := s.began.Add(faultEvery), 0
	for now := s.began; now.Sub(s.began) < length; now = time.Now() {
		s.mend(now)
		if due := int(float64(s.most) * min(1, float64(now.Sub(s.began))/(0.9*float64(length)))); submitted <= due && submitted < s.most && len(s.broken) == 0 {
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
	for ; submitted < s.most; submitted++ {
		s.submit()
	}
	s.pause(5 * time.Second) // until the daemon has seen the last ones: it takes up what comes after a release
	views, before := s.views(), must(l.LeftoversBut(s.nice()))(t)

	out, code, err := l.Unisched(t.Context(), "release", "--all")
	if err != nil || code != 0 {
		t.Errorf("release --all: exit %d, %v: %s", code, err, out)
	}
	if len(before) == 0 {
		t.Error("nothing of the daemon's doing was to be seen in Slurm before the release: what it undoes was not tested")
	}
	released := time.Now()
	check(t, l.WaitFor(within(t, time.Minute), "nothing left behind after release --all", func() (bool, string, error) {
		left, err := s.left()
		return len(left) == 0, strings.Join(left, "\n"), err
	}))
	clean := time.Since(released)
	v := s.judge(views)
	if left := must(s.left())(t); len(left) > 0 {
		t.Errorf("left behind in Slurm:\n%s", strings.Join(left, "\n"))
	}
	preempted, most := 0, 0
	for _, v := range views {
		preempted, most = preempted+v.Preemptions, max(most, v.Preemptions)
	}
	for _, kind := range faults {
		if s.counts[kind] == 0 {
			t.Errorf("no fault of the kind %q in %v", kind, length)
		}
	}
	t.Logf("SOAK Slurm %s, seed %d, %v, %d jobs: faults %s; %d preemptions (%d of one job); %s; %d marks on living jobs before the release, clean %.0f s after it",
		os.Getenv("UNISCHED_E2E"), seed, length, s.most, sorted(s.counts), preempted, most, v, len(before), clean.Seconds())
}

// soaked is a job of the soak.
type soaked struct {
	user      string
	iters     int
	ours      bool // names UniSched
	cancelled bool
	nice      int64 // its user's own
}

// soak is a run of it: what is broken at the moment and how to mend it, and which faults are still to come in this turn.
type soak struct {
	t      *testing.T
	l      *lab.Lab
	began  time.Time
	most   int // jobs
	rng    *rand.Rand
	jobs   map[int]*soaked
	order  []int // job ids as submitted
	broken []mending
	turn   []string
	counts map[string]int
}

type mending struct {
	at  time.Time
	do  func() error
	how string
}

// say writes a line of the course.
func (s *soak) say(format string, args ...any) {
	s.t.Helper()
	s.t.Logf("%6.1f s "+format, append([]any{time.Since(s.began).Seconds()}, args...)...)
}

func (s *soak) nice() map[int]int64 {
	own := map[int]int64{}
	for id, j := range s.jobs {
		own[id] = j.nice
	}
	return own
}

// left is what is left of the daemon's doing. A delay of a plain job is Slurm's own: two minutes after a failure of its node.
func (s *soak) left() ([]string, error) {
	all, err := s.l.LeftoversBut(s.nice())
	return slices.DeleteFunc(all, func(line string) bool {
		var id int
		_, err := fmt.Sscanf(line, "job %d ", &id)
		return err == nil && s.jobs[id] != nil && !s.jobs[id].ours && strings.Contains(line, "delayed until")
	}), err
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
	s.say("job %d of %s: %d iterations, %s %s", id, user, iters, strings.Join(asked, " "), wish)
	s.jobs[id] = &soaked{user: user, iters: iters, ours: wish != ""}
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
	s.say("%s", name)
	if err := breakIt(); err != nil {
		s.t.Errorf("soak: %s: %v", name, err)
	}
	s.broken = append(s.broken, mending{now.Add(least + time.Duration(s.rng.Int64N(int64(most-least)))), mendIt, "after " + name})
}

// faults are all kinds. A turn goes through them in a random order, through some twice.
var faults = []string{"daemon killed", "slurmctld killed", "slurmrestd away", "token expired", "node down", "job cancelled", "job held", "job modified"}

// fault draws one of the faults. While something is still broken only the daemon is killed, since a user's command needs a working slurmctld. What has
// nobody to happen to is drawn again in the next turn.
func (s *soak) fault(now time.Time) {
	s.t.Helper()
	if len(s.broken) == 0 && !s.l.Alive() {
		s.t.Fatal("the daemon has ended by itself")
	}
	if len(s.broken) > 0 && s.l.Alive() {
		s.inject(now, faults[0])
		return
	}
	for range 2 * len(faults) {
		if len(s.turn) == 0 {
			s.turn = append(slices.Clone(faults), faults[0], "node down")
			s.rng.Shuffle(len(s.turn), func(i, j int) { s.turn[i], s.turn[j] = s.turn[j], s.turn[i] })
		}
		kind := s.turn[0]
		s.turn = s.turn[1:]
		if s.inject(now, kind) {
			return
		}
	}
	s.counts["nothing to do"]++
}

// inject does one fault. It returns false when there is nobody whom it could happen to.
func (s *soak) inject(now time.Time, kind string) bool {
	s.t.Helper()
	l := s.l
	service := func(verb, name string) func() error { return func() error { return l.Service(verb, name) } }
	as := func(user string, argv ...string) func() error {
		return func() error { _, err := l.Exec(user, argv...); return err }
	}
	switch kind {
	case "daemon killed":
		if !l.Alive() {
			return false
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
		return s.meddle(now, kind)
	}
	return true
}

// meddle is what users do with their own jobs. It returns false when there is no job to do it to.
func (s *soak) meddle(now time.Time, kind string) bool {
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
		case kind == "job cancelled" && s.counts[kind] < max(s.most/8, 1):
			j.cancelled = true
			s.counts[kind]++
			s.say("%s: %s, %s", kind, id, q.State)
			check(s.t, command("scancel", id))
			return true
		case kind == "job held" && q.State == "PENDING":
			s.breaking(now, kind, func() error { return command("scontrol", "hold", id) }, func() error {
				// It may have started before the hold came, and would come back held. Of one that has ended there is nothing to let go, and a running one
				// may be held by the daemon, which its user cannot undo.
				queue, err := s.l.Squeue()
				at := slices.IndexFunc(queue, func(x lab.Queued) bool { return x.ID == q.ID })
				if err != nil || at < 0 {
					return err
				}
				if err := command("scontrol", "release", id); err != nil && queue[at].State == "PENDING" {
					return err
				}
				return nil
			}, 3*time.Second, 15*time.Second)
			return true
		case kind == "job modified" && q.State == "PENDING":
			what := []string{"timelimit=19", "nice=50", "name=renamed"}[s.rng.IntN(3)]
			if what == "nice=50" {
				j.nice = 50
			}
			s.counts[kind]++
			s.say("%s: %s, %s", kind, id, what)
			check(s.t, command("scontrol", "update", "jobid="+id, what))
			return true
		}
	}
	return false
}
