package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"unisched/contrib/lab"
)

// countTasks says how many tasks a job has, and how many a step of it gets.
const countTasks = `#!/bin/bash
echo "SLURM_NTASKS=$SLURM_NTASKS, srun starts $(srun bash -c 'echo task' 2>/dev/null | grep -c task)"
`

// TestTasks runs requests that say in several ways how many tasks they have, once as a plain job and once managed: both have the same. On 24.11 a job with tasks per GPU loses
// them at any change that does not name them.
func TestTasks(t *testing.T) {
	l := up(t, lab.Options{Nodes: 2, GPUs: 8})
	requests := []string{
		"--ntasks=4 --ntasks-per-gpu=1 --gpus=4",
		"--ntasks-per-gpu=2 --gpus=2",
		"--nodes=2 --ntasks-per-gpu=1 --gpus-per-node=2",
		"--ntasks=4 --gpus=4",
		"--ntasks=4 --gpus-per-task=1",
		"--ntasks-per-node=2 --nodes=2 --gpus-per-node=2",
	}
	said := map[string][2]string{}
	for i, user := range []string{"bob", "alice"} { // one after the other: the nodes are empty for each
		ids := map[string]int{}
		for _, r := range requests {
			args := append(strings.Fields(r), "--time=2", "--output=digits-%j.out")
			if user == "alice" {
				args = append(args, "--comment=unisched:ckpt=none")
			}
			ids[r] = submit(t, l, user, lab.Job{Args: args, Text: countTasks})
		}
		for _, r := range requests {
			check(t, l.WaitFor(within(t, 3*time.Minute), fmt.Sprintf("the end of job %d (%s)", ids[r], r), func() (bool, string, error) {
				a, err := l.Sacct(ids[r])
				return a.State == "COMPLETED" || a.State == "FAILED", a.State, err
			}))
			both := said[r]
			both[i] = strings.TrimSpace(must(l.Output(user, ids[r]))(t))
			said[r] = both
		}
	}
	for _, r := range requests {
		if said[r][0] != said[r][1] || strings.Contains(said[r][0], "starts 0") {
			t.Errorf("%s: managed %q, plain %q", r, said[r][1], said[r][0])
		}
	}
	noLeftovers(t, l)
}
