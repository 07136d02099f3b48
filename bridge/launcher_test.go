package bridge_test

import (
	"strings"
	"testing"

	"unisched/bridge"
	"unisched/slurm/comment"
)

// case 30: what stands between the signal and the workers is named before it costs anything.
func TestLauncherAdvice(t *testing.T) {
	usr1, term := comment.Ckpt{Signal: "USR1", BatchOnly: true}, comment.Ckpt{Signal: "TERM"}
	for _, c := range []struct {
		name, text string
		ckpt       comment.Ckpt
		want       string // the advice begins so; "": none
	}{
		{"torchrun", "#!/bin/bash\n#SBATCH -N1\nsrun torchrun --nproc-per-node=4 train.py\n", usr1, "torchrun does not hand USR1 on"},
		{"by its path", "exec /opt/venv/bin/torchrun train.py", usr1, "torchrun does not hand USR1 on"},
		{"as a module", "python3 -m torch.distributed.run train.py", usr1, "torch.distributed.run does not hand"},
		{"the old launcher", "python3 -m torch.distributed.launch train.py", usr1, "torch.distributed.launch does not hand"},
		{"accelerate", "accelerate  launch train.py", usr1, "accelerate launch does not hand"},
		{"over two lines", "exec srun \\\n  torchrun train.py", usr1, "torchrun does not"},
		{"submitted with --wrap", `sbatch --comment=unisched:ckpt=USR1 --wrap "torchrun train.py"`, usr1, "torchrun does not"},
		{"a signal that it hands on", "torchrun train.py", term, "torchrun kills its workers 30 s after it has handed TERM on"},
		{"the sidecar before it", "exec srun unisched-node run --signal USR1 --forward tree -- \\\n torchrun train.py", usr1, ""},
		{"the sidecar, written with =", "unisched-node run --forward=tree -- torchrun train.py", usr1, ""},
		{"the sidecar without tree", "unisched-node run -- torchrun train.py", usr1, "torchrun does not"},
		{"never stopped", "torchrun train.py", comment.Ckpt{None: true}, ""},
		{"plain srun", "trap '' USR1\nexec srun python3 train.py", usr1, ""},
		{"only spoken of", "# torchrun would be an alternative\nsrun python3 my_torchrun_like.py", usr1, ""},
		{"nothing", "", usr1, ""},
	} {
		got := bridge.LauncherAdvice(c.text, c.ckpt)
		if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
