package main

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"unisched/bridge/replay"
	"unisched/bridge/sim/trace"
	"unisched/bridge/siteconfig"
)

// next says what to do about an error of cmd, "" where the error itself says it.
func (a *app) next(cmd *cobra.Command, c coded) string {
	path := cmd.CommandPath()
	if c.code == exitUsage {
		if strings.Contains(c.Error(), "\nTry: ") {
			return ""
		}
		if strings.Contains(c.Error(), "arg(s)") { // cobra's words for too few or too many
			return "Write: " + cmd.UseLine() + "\nTry: " + path + " --help"
		}
		return a.meant(cmd, c) + "Try: " + path + " --help"
	}
	if errors.Is(c, trace.ErrFormat) {
		return "Name the format with --format: " + strings.Join(trace.Formats(), ", ")
	}
	if missing, ok := errors.AsType[*fs.PathError](c); ok && errors.Is(missing, fs.ErrNotExist) {
		switch {
		case missing.Path == a.config || missing.Path == a.env("UNISCHED_CONFIG"):
			return "Name the configuration with --config or $UNISCHED_CONFIG; that of the package is " + siteconfig.DefaultPath + ", with every key explained"
		case strings.HasPrefix(path, "unisched eval"):
			return "Name the tables with --data FILE|DIR, or the folder that holds them all with --data-dir or $UNISCHED_DATA"
		case path == "unisched postmortem" || path == "unisched report slo":
			if !strings.Contains(c.Error(), "\n") {
				return "The daemon keeps ended jobs in state_dir/ended; name another folder with --dir"
			}
		case strings.HasSuffix(path, "plan") && !strings.Contains(c.Error(), "\n"):
			return "Rounds are stored in state_dir/rounds of the daemon; `unisched plan --dry-run` takes its newest snapshot"
		}
	}
	if path == "unisched replay" && !errors.Is(c, replay.ErrNone) && strings.Contains(c.Error(), "round ") {
		return "Every file of the folder must be a round that a daemon stored in state_dir/rounds; name the folder with --rounds"
	}
	return ""
}

// meant suggests the command that a misspelt one is near to, with its line's end, or gives "".
func (a *app) meant(cmd *cobra.Command, c coded) string {
	_, rest, ok := strings.Cut(c.Error(), `unknown command "`)
	if !ok || !cmd.HasSubCommands() {
		return ""
	}
	word, _, _ := strings.Cut(rest, `"`)
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(word); len(near) > 0 {
		return "Did you mean: " + cmd.CommandPath() + " " + near[0] + "?\n"
	}
	return ""
}
