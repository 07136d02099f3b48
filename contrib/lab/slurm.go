package lab

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Queued is a pending or running job as Slurm shows it to its administrator.
type Queued struct {
	ID       int
	State    string // PENDING, RUNNING, COMPLETING, ...
	Reason   string
	Begin    time.Time // zero: none
	Priority int64     // 0: held
	Nice     int64
	// Required are the nodes that the job is pinned to, in Slurm's notation.
	Required  string
	Partition string
	Restarts  int
}

// Squeue lists the pending and running jobs.
func (l *Lab) Squeue() ([]Queued, error) {
	out, err := l.Exec("root", "squeue", "--noheader", "--all", "--Format=JobID:|,State:|,Reason:|,EligibleTime:|,PriorityLong:|,Nice:|,ReqNodes:|,Partition:|,RestartCnt:|")
	if err != nil {
		return nil, err
	}
	return parseQueue(out)
}

func parseQueue(out string) ([]Queued, error) {
	var jobs []Queued
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) < 9 {
			return nil, fmt.Errorf("squeue: line %q", line)
		}
		var q Queued
		var errs [4]error
		q.ID, errs[0] = strconv.Atoi(f[0])
		q.State, q.Reason, q.Required, q.Partition = f[1], f[2], f[6], f[7]
		q.Begin = localTime(f[3])
		q.Priority, errs[1] = strconv.ParseInt(f[4], 10, 64)
		q.Nice, errs[2] = strconv.ParseInt(f[5], 10, 64)
		q.Restarts, errs[3] = strconv.Atoi(f[8])
		for _, err := range errs {
			if err != nil {
				return nil, fmt.Errorf("squeue: line %q: %w", line, err)
			}
		}
		jobs = append(jobs, q)
	}
	return jobs, nil
}

// localTime reads Slurm's usual form; N/A and the like are zero.
func localTime(s string) time.Time {
	t, err := time.ParseInLocation("2006-01-02T15:04:05", s, time.Local)
	if err != nil {
		return time.Time{}
	}
	return t
}

// Accounted is a run of a job as accounting knows it.
type Accounted struct {
	ID         int
	State      string // COMPLETED, FAILED, CANCELLED by 1001, PENDING, ...
	Submit     time.Time
	Start, End time.Time // zero: not yet
	Exit       int
	Nodes      string // Slurm's notation; "None assigned"
	GPUs       int
}

// Sacct asks accounting for one job. Accounting hears of changes a little after the controller.
func (l *Lab) Sacct(id int) (Accounted, error) {
	out, err := l.sacct(id)
	if err != nil {
		return Accounted{}, err
	}
	return parseAccount(out)
}

// Runs asks accounting for every run of one job, oldest first: those that went back to the queue and the last one.
func (l *Lab) Runs(id int) ([]Accounted, error) {
	out, err := l.sacct(id, "--duplicates")
	if err != nil {
		return nil, err
	}
	var runs []Accounted
	for line := range strings.Lines(out) {
		run, err := parseAccount(line)
		if err != nil {
			return nil, err
		}
		runs = append(runs, run)
	}
	return runs, nil
}

func (l *Lab) sacct(id int, more ...string) (string, error) {
	argv := []string{"env", "SLURM_TIME_FORMAT=%s", "sacct", "-X", "-n", "-P", "-j", strconv.Itoa(id),
		"-o", "JobIDRaw,State,Submit,Start,End,ExitCode,NodeList,AllocTRES"}
	return l.Exec("root", append(argv, more...)...)
}

func parseAccount(out string) (Accounted, error) {
	line, _, _ := strings.Cut(strings.TrimSpace(out), "\n")
	f := strings.Split(line, "|")
	if len(f) != 8 {
		return Accounted{}, fmt.Errorf("sacct: line %q", line)
	}
	id, err := strconv.Atoi(f[0])
	if err != nil {
		return Accounted{}, fmt.Errorf("sacct: line %q: %w", line, err)
	}
	a := Accounted{ID: id, State: f[1], Submit: epoch(f[2]), Start: epoch(f[3]), End: epoch(f[4]), Nodes: f[6]}
	code, _, _ := strings.Cut(f[5], ":")
	a.Exit, _ = strconv.Atoi(code)
	for tres := range strings.SplitSeq(f[7], ",") {
		if n, ok := strings.CutPrefix(tres, "gres/gpu="); ok {
			a.GPUs, _ = strconv.Atoi(n)
		}
	}
	return a, nil
}

func epoch(s string) time.Time {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n <= 0 {
		return time.Time{}
	}
	return time.Unix(n, 0)
}

// Leftovers lists what of the daemon's doing is still to be seen in Slurm on jobs that have not ended: holds, begin times ahead, pinned nodes, nice
// values. After a release, or at the end of everything, there is none. Jobs that their users held themselves count too.
func (l *Lab) Leftovers() ([]string, error) {
	jobs, err := l.Squeue()
	if err != nil {
		return nil, err
	}
	return leftovers(jobs, nil), nil
}

// LeftoversBut is Leftovers where users gave their jobs a nice value of their own, by job id: any other one is left over.
func (l *Lab) LeftoversBut(nice map[int]int64) ([]string, error) {
	jobs, err := l.Squeue()
	if err != nil {
		return nil, err
	}
	return leftovers(jobs, nice), nil
}

func leftovers(jobs []Queued, nice map[int]int64) []string {
	var found []string
	for _, j := range jobs {
		add := func(bad bool, format string, args ...any) {
			if bad {
				found = append(found, fmt.Sprintf("job %d (%s): ", j.ID, j.State)+fmt.Sprintf(format, args...))
			}
		}
		add(strings.HasPrefix(j.Reason, "JobHeld") || j.State == "PENDING" && j.Priority == 0, "held (%s)", j.Reason)
		add(j.State == "PENDING" && j.Begin.After(time.Now()), "delayed until %s", j.Begin.Format(time.TimeOnly))
		add(j.State == "PENDING" && j.Required != "", "pinned to %s", j.Required)
		add(j.Nice != nice[j.ID], "nice %d", j.Nice)
	}
	return found
}
