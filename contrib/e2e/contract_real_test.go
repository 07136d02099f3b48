package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"unisched/contrib/testcluster"
	"unisched/slurm"
)

// realStage is a real Slurm. Calls go through slurmrestd; people use the commands.
type realStage struct {
	*slurm.Client
	c *testcluster.Cluster
}

func (r *realStage) now() time.Time { return time.Now() }
func (r *realStage) pass()          { time.Sleep(tick) }

// jobScript runs for so many seconds (0: for ever), saves in a second when it hears USR1, and exits with 99.
const jobScript = `trap %s
touch /shared/alive-$SLURM_JOB_ID
n=0
while [ $n -lt $((5 * %d)) ] || [ %d = 0 ]; do sleep 0.2 & wait $!; n=$((n + 1)); done
exit %d
`

// Signal waits until the job's script has set its trap, as the daemon waits for a sign of life: a signal that comes before its batch step does is lost.
func (r *realStage) Signal(ctx context.Context, ref slurm.Ref, s slurm.Signal) error {
	if j, err := r.Job(ctx, ref.ID); err == nil && j.State == slurm.StateRunning {
		for range 50 {
			if _, err := os.Stat(filepath.Join(r.c.Root, "shared", "alive-"+ref.ID.String())); err == nil {
				break
			}
			r.pass()
		}
	}
	return r.Client.Signal(ctx, ref, s)
}

func (r *realStage) submit(j asked) (slurm.JobID, error) {
	var args []string
	add := func(given bool, format string, v any) {
		if given {
			args = append(args, fmt.Sprintf(format, v))
		}
	}
	add(true, "--job-name=%s", j.name)
	add(j.gpus > 0, "--gpus=%d", j.gpus)
	add(j.perNode > 0, "--gpus-per-node=%d", j.perNode)
	add(j.nodes > 0, "--nodes=%d", j.nodes)
	add(j.tasks > 0, "--ntasks=%d", j.tasks)
	add(j.minutes > 0, "--time=%d", j.minutes)
	add(j.minutes == 0, "--time=%d", 10)
	add(j.minutes < 0, "--time=%s", "infinite")
	add(j.begin > 0, "--begin=now+%d", int(j.begin.Seconds()))
	add(j.nice != 0, "--nice=%d", j.nice)
	add(j.after != 0, "--dependency=afterany:%d", j.after)
	add(j.partition != "", "--partition=%s", j.partition)
	add(j.hold, "%s", "--hold")
	add(j.noRequeue, "%s", "--no-requeue")
	add(!j.noRequeue, "%s", "--requeue")
	trap := "'sleep 1; exit 99' USR1"
	if j.noTrap {
		trap = "- USR1"
	}
	id, err := r.c.Submit("alice", fmt.Sprintf(jobScript, trap, j.seconds, j.seconds, j.exit), append(args, "--output=/dev/null")...)
	return slurm.JobID(id), err
}

func (r *realStage) people(what string, args ...string) error {
	run := func(user string, argv ...string) error {
		_, err := r.c.Exec(user, argv...)
		return err
	}
	prolog := filepath.Join(r.c.Root, "etc", "slurm", "unisched-prolog")
	switch what {
	case "cancel":
		return run("root", append([]string{"scancel"}, args...)...)
	case "hold":
		return run("alice", "scontrol", "hold", args[0])
	case "drain":
		return run("root", "scontrol", "update", "NodeName="+args[0], "State=DRAIN", "Reason=test")
	case "resume":
		return run("root", "scontrol", "update", "NodeName="+args[0], "State=RESUME")
	case "break": // the prolog fails on this node
		text, err := os.ReadFile(prolog)
		if err != nil {
			return err
		}
		broken := strings.Replace(string(text), "#!/bin/sh\n", "#!/bin/sh\n[ \"$SLURMD_NODENAME\" != "+args[0]+" ] || exit 1\n", 1)
		return replaceFile(prolog, broken)
	case "mend":
		text, err := os.ReadFile(prolog)
		if err != nil {
			return err
		}
		lines := strings.Split(string(text), "\n")
		if err := replaceFile(prolog, strings.Join(append(lines[:1:1], lines[2:]...), "\n")); err != nil {
			return err
		}
		return run("root", "scontrol", "update", "NodeName="+args[0], "State=RESUME")
	case "reserve":
		return run("root", "scontrol", "create", "reservation", "ReservationName=maint", "Users=root", "Flags=maint", "Nodes="+args[0],
			"StartTime=uts"+strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10), "Duration=60")
	case "unreserve":
		return run("root", "scontrol", "delete", "ReservationName=maint")
	}
	return fmt.Errorf("no such thing: %s", what)
}

// replaceFile puts a new file in the place of an old one, in one move.
func replaceFile(path, text string) error {
	if err := os.WriteFile(path+".new", []byte(text), 0o755); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
