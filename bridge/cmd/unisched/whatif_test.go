package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/bridge/ask"
)

func TestFromScript(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       ask.Question
		says       string // of the error
	}{
		{name: "long and short forms", text: "#!/bin/bash\n#SBATCH --gpus=a100:4 -N2 -t 1-02:30 -p gpu,other\n#SBATCH -J 'my job' --comment=\"unisched:class=strict,deadline=now+6h\"\n",
			want: ask.Question{GPUs: 4, GPUType: "a100", Nodes: 2, LimitS: 95400, Partition: "gpu", Name: "my job", Comment: "unisched:class=strict,deadline=now+6h"}},
		{name: "gres", text: "#SBATCH --gres=gpu:v100:2(S:0),nvme:1\n#SBATCH --nodes 2-4\n#SBATCH -c 8 --mem=64G\n", want: ask.Question{GPUsPerNode: 2, GPUType: "v100", Nodes: 2, CPUsPerTask: 8, MemMB: 65536}},
		{name: "one GPU without a number", text: "#SBATCH --gres=gpu\n", want: ask.Question{GPUsPerNode: 1}},
		{name: "the last one wins", text: "#SBATCH --gpus=4\n#SBATCH --gpus=8\n", want: ask.Question{GPUs: 8}},
		{name: "nothing after the first command", text: "#SBATCH --gpus=4\nsrun x\n#SBATCH --gpus=8\n", want: ask.Question{GPUs: 4}},
		{name: "what it does not depend on", text: "#SBATCH --output=x.log --mail-type END --gpus 2 --exclusive\n", want: ask.Question{GPUs: 2}},
		{name: "no requeue", text: "#SBATCH --no-requeue -G1\n", want: ask.Question{GPUs: 1, NoRequeue: true}},
		{name: "an array", text: "#SBATCH --array=1-9\n", says: "one task"},
		{name: "no number", text: "#SBATCH --gpus=many\n", says: "line 1: --gpus"},
		{name: "a bad time", text: "\n#SBATCH --time=soon\n", says: "line 2: --time"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got ask.Question
			err := fromScript(&got, tt.text)
			if tt.says != "" {
				if err == nil || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("%v", err)
				}
				return
			}
			if d := cmp.Diff(tt.want, got); err != nil || d != "" {
				t.Error(err, d)
			}
		})
	}
}

func TestTimeLimit(t *testing.T) {
	for s, want := range map[string]time.Duration{"90": 90 * time.Minute, "10:30": 10*time.Minute + 30*time.Second, "2:00:00": 2 * time.Hour, "1-0": 24 * time.Hour, "1-2": 26 * time.Hour, "1-2:30": 26*time.Hour + 30*time.Minute,
		"1-2:30:15": 26*time.Hour + 30*time.Minute + 15*time.Second, "UNLIMITED": 0} {
		if got, err := timeLimit(s); err != nil || got != want {
			t.Errorf("%s: %v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "-", "1:2:3:4", "1-2:3:4:5", "x", "-5", "1-", "99999999999"} {
		if got, err := timeLimit(s); err == nil {
			t.Errorf("%s: %v", s, got)
		}
	}
}

func TestWithDeadline(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", "unisched:class=strict,deadline=now+6h"},
		{"mine", "mine unisched:class=strict,deadline=now+6h"},
		{"a unisched:class=soft,deadlines=now+1h:100,ckpt=USR1 b", "a unisched:class=strict,ckpt=USR1,deadline=now+6h b"},
		{"unisched:class=strict,deadline=now+1h,gpus=2-4;rest", "unisched:class=strict,gpus=2-4,deadline=now+6h;rest"},
		{"unisched:ckpt=USR1", "unisched:class=strict,ckpt=USR1,deadline=now+6h"},
	} {
		if got := withDeadline(tt.text, "now+6h"); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.text, got, tt.want)
		}
	}
}

// The exit code says whether to submit, and what is missing is said before the daemon is asked.
func TestWhatIfCommand(t *testing.T) {
	socket := simulated(t)
	for _, tt := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"time enough", []string{"--gpus", "2", "-t", "60", "--deadline", "now+20h", "--comment", "unisched:stop=iters:600,ckpt=USR1"}, 0, "accepted"},
		{"no time", []string{"--gpus", "16", "-t", "180", "--deadline", "now+20m", "--comment", "unisched:stop=iters:9000,ckpt=USR1"}, 2, "deadline at risk"},
		{"too big", []string{"--gpus", "99", "--deadline", "now+20h"}, 2, "can ever hold"},
		{"a bad comment", []string{"--gpus", "1", "--comment", "unisched:clas=strict"}, 2, "could not be read"},
		{"no GPUs", []string{"--deadline", "now+6h"}, 1, "how many GPUs"},
		{"no comment", []string{"--gpus", "2"}, 64, "no comment"},
		{"no such script", []string{"none.sh"}, 1, "none.sh"},
		{"not a number", []string{"--gpus", "x", "--deadline", "now+6h"}, 64, "want N or TYPE:N"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			a := testApp()
			a.out, a.err, a.env = &out, &errs, func(string) string { return "" }
			if code := a.run(t.Context(), append([]string{"--socket", socket, "whatif"}, tt.args...)); code != tt.code || !strings.Contains(out.String()+errs.String(), tt.says) {
				t.Errorf("exit code %d: %s%s", code, out.String(), errs.String())
			}
		})
	}
}

func FuzzFromScript(f *testing.F) {
	f.Add("#SBATCH --gpus=a100:4 -N2 -t 1-02:30\n#SBATCH --gres=gpu:2\n", "now+6h")
	f.Add("#SBATCH --comment 'unisched:class=soft,deadlines=now+1h:100' --mem 1T\n", "")
	f.Fuzz(func(t *testing.T, text, deadline string) {
		var q ask.Question
		if fromScript(&q, text) == nil && (q.GPUs < 0 || q.GPUsPerNode < 0 || q.LimitS < 0 || q.MemMB < 0) {
			t.Errorf("%+v", q)
		}
		if got := withDeadline(q.Comment, deadline); strings.TrimSpace(deadline) == deadline && !strings.Contains(got, "deadline="+deadline) {
			t.Errorf("%q lacks the deadline %q", got, deadline)
		}
	})
}
