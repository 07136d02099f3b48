package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"unisched/bridge"
	"unisched/contrib/lab"
)

// askedExit is the exit code of a run that was asked to leave, and saved.
const askedExit = 99

// verdict is what became of all jobs: ends by state, how often runs ended on the way and why, and what was done twice for it.
type verdict struct {
	ends      map[string]int
	comebacks map[string]int
	resumed   int   // starts from a checkpoint
	repeated  int64 // iterations reported by runs that a fault ended and done again
	compared  int   // jobs whose weights were those of an undisturbed training
}

func (v verdict) String() string {
	return fmt.Sprintf("runs that came back %s; %d resumed from a checkpoint; %d iterations done again after faults; weights of %d jobs as undisturbed; ends %s",
		sorted(v.comebacks), v.resumed, v.repeated, v.compared, sorted(v.ends))
}

// judge waits for the end of every job and judges it by accounting, by what it printed itself, and by what the daemon knew of it.
func (s *soak) judge(views map[int]bridge.JobView) verdict {
	s.t.Helper()
	v := verdict{ends: map[string]int{}, comebacks: map[string]int{}}
	weights := map[int]string{}
	for _, id := range s.order {
		j := s.jobs[id]
		end, err := s.ended(id)
		if err != nil {
			s.t.Error(err)
			continue
		}
		out, err := s.l.Output(j.user, id)
		if err != nil && !(j.cancelled && os.IsNotExist(err)) { // cancelled before it ran
			s.t.Error(err)
		}
		state, _, _ := strings.Cut(end.State, " ")
		v.ends[state]++
		if want := map[bool]string{true: "CANCELLED", false: "COMPLETED"}[j.cancelled]; state != want && !(j.cancelled && state == "COMPLETED") {
			s.t.Errorf("job %d of %s ended %s (exit %d), want %s:\n%s\n%s", id, j.user, end.State, end.Exit, want, tail(out, 30), s.story(id, views))
		}
		s.runs(id, &v)
		s.lost(id, views, &v)
		last := s.printed(id, out, views, &v)
		if state != "COMPLETED" {
			continue
		}
		if weights[j.iters] == "" {
			weights[j.iters] = s.undisturbed(j.iters)
		}
		if last != weights[j.iters] {
			s.t.Errorf("job %d is COMPLETED and ended with %q, an undisturbed training with %q:\n%s", id, last, weights[j.iters], tail(out, 40))
		} else {
			v.compared++
		}
	}
	return v
}

// ended waits for the end of a job, as accounting has it.
func (s *soak) ended(id int) (lab.Accounted, error) {
	var end lab.Accounted
	err := s.l.WaitFor(within(s.t, 15*time.Minute), "job "+itoa(id)+" to end", func() (bool, string, error) {
		var err error
		end, err = s.l.Sacct(id)
		return !end.End.IsZero() && !slices.Contains([]string{"PENDING", "RUNNING", "REQUEUED", "RESIZING", "SUSPENDED"}, end.State), end.State, err
	})
	return end, err
}

// runs counts how the runs of a job ended that were not its last. No run may have been sent back but by being asked, or by a fault.
func (s *soak) runs(id int, v *verdict) {
	s.t.Helper()
	all := must(s.l.Runs(id))(s.t)
	for _, r := range all[:max(len(all)-1, 0)] {
		how := r.State
		if r.State == "REQUEUED" && r.Exit == askedExit {
			how = "as asked"
		}
		if how == "PENDING" && s.counts["slurmctld killed"] > 0 { // of a requeue that the killed one forgot: the same run follows once more
			continue
		}
		if how == "REQUEUED" && r.Exit == 0 && s.startedTwice(id) {
			how = "started twice by Slurm"
		}
		if how != "as asked" && how != "NODE_FAIL" && how != "started twice by Slurm" {
			s.t.Errorf("job %d: a run of it ended %s, exit %d", id, r.State, r.Exit)
		}
		v.comebacks[how]++
	}
}

// lost looks at what the daemon noted of every return of a job: a run that the plan or a profile ended has lost nothing, one that a fault ended no more than
// what came after its checkpoint.
func (s *soak) lost(id int, views map[int]bridge.JobView, v *verdict) {
	s.t.Helper()
	view, ok := views[id]
	if !ok {
		return
	}
	for _, r := range view.Returns {
		if r.Resumed < r.Saved {
			s.t.Errorf("job %d run %d resumed at iteration %d, its checkpoint was of %d\n%s", id, r.Run, r.Resumed, r.Saved, s.story(id, views))
		}
		i := slices.IndexFunc(view.Stays, func(x bridge.Stay) bool { return x.Run == r.Run-1 })
		if i >= 0 && view.Stays[i].Cut && r.Resumed < r.Reached {
			s.t.Errorf("job %d run %d was asked to leave at iteration %d, run %d began at %d\n%s", id, r.Run-1, r.Reached, r.Run, r.Resumed, s.story(id, views))
		}
		v.repeated += max(r.Reached-r.Resumed, 0)
	}
	for _, e := range view.Events {
		if e.What == "illegal-step" {
			s.t.Errorf("job %d: illegal step %s\n%s", id, e.Text, s.story(id, views))
		}
	}
}

var startOrSave = regexp.MustCompile(`(?m)^(start|checkpoint|end) iter=(\d+).*$`)

// printed reads what a job printed itself: it never began below what it had saved. The last line of its training is returned, "" when there is none.
func (s *soak) printed(id int, out string, views map[int]bridge.JobView, v *verdict) (last string) {
	s.t.Helper()
	saved := 0
	for i, m := range startOrSave.FindAllStringSubmatch(out, -1) {
		n, _ := strconv.Atoi(m[2])
		switch m[1] {
		case "checkpoint":
			saved = n
		case "start":
			if i > 0 && n > 0 {
				v.resumed++
			}
			if n < saved {
				s.t.Errorf("job %d began again at iteration %d, it had saved %d:\n%s\n%s", id, n, saved, tail(out, 40), s.story(id, views))
			}
		case "end":
			last = m[0]
		}
	}
	return last
}

// undisturbed is the last line of a training of so many iterations that nobody disturbs, with the weights that it ends with.
func (s *soak) undisturbed(iters int) string {
	s.t.Helper()
	out := must(s.l.Exec("alice", "python3", lab.DigitsDir+"/train.py", "--iters", itoa(iters), "--ckpt", "/tmp/undisturbed"))(s.t)
	return tail(out, 1)
}

// story is what the daemon noted of a job.
func (s *soak) story(id int, views map[int]bridge.JobView) string {
	if v, ok := views[id]; ok {
		return events(v)
	}
	return "  the daemon did not know it"
}

// views are all jobs as the daemon knows them.
func (s *soak) views() map[int]bridge.JobView {
	s.t.Helper()
	all := map[int]bridge.JobView{}
	for _, v := range must(s.l.Jobs(within(s.t, time.Minute)))(s.t) {
		all[int(v.ID)] = v
	}
	return all
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

// startedTwice says that a slurmctld which was killed just after it had started the job did not remember that, and started it again: slurmd refuses the second
// copy, and Slurm requeues the job of its own accord.
func (s *soak) startedTwice(id int) bool {
	s.t.Helper()
	files := must(filepath.Glob(filepath.Join(s.l.Dir, "cluster", "log", "slurmd*")))(s.t)
	refused := regexp.MustCompile(fmt.Sprintf(`JobId=%d .*already running, do not launch second copy`, id))
	return slices.ContainsFunc(files, func(f string) bool { return refused.Match(must(os.ReadFile(f))(s.t)) })
}
