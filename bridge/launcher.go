package bridge

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"unisched/slurm/comment"
)

// Launchers of PyTorch's elastic agent: it starts the workers in sessions of their own, hands on the signals of agentSignals only, and kills what has not ended 30 s
// after them.
var (
	agent        = regexp.MustCompile(`(?m)^[^#\n]*?(?:^|[\s/;&|"'(])(torchrun|torch\.distributed\.(?:run|launch)|accelerate[ \t]+launch)(?:[\s;&|"')]|$)`)
	forwards     = regexp.MustCompile(`unisched-node[ \t]+run\b[^\n]*--?forward[= \t]+tree\b`)
	agentSignals = []string{"TERM", "INT", "HUP", "QUIT"}
)

// LauncherAdvice says of a job's script, or of the command line that submitted it, what its launcher makes of the checkpoint signal; "" where nothing speaks against it.
// It reads text and guesses: what a script calls is not seen.
func LauncherAdvice(text string, c comment.Ckpt) string {
	m := agent.FindStringSubmatch(strings.ReplaceAll(text, "\\\n", " "))
	if m == nil || c.None || c.Signal == "" || forwards.MatchString(strings.ReplaceAll(text, "\\\n", " ")) {
		return ""
	}
	name := strings.Join(strings.Fields(m[1]), " ")
	if slices.Contains(agentSignals, string(c.Signal)) {
		return fmt.Sprintf("%s kills its workers 30 s after it has handed %s on: a checkpoint that takes longer is lost (unisched-node run --forward tree, with USR2, gives them the time that they need)", name, c.Signal)
	}
	return fmt.Sprintf("%s does not hand %s on to its workers: put unisched-node run --forward tree before it, or they never save", name, c.Signal)
}
