package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// examples are what --help and the manual show of each command that does not bring its own.
var examples = map[string]string{
	"unisched": `
unisched lint 'unisched:class=strict,deadline=now+6h,ckpt=USR1+99'
unisched explain 1234
unisched status`,
	"unisched bench":      `unisched bench plan --gpus 960 --jobs 1000`,
	"unisched bench plan": `unisched bench plan --gpus 960 --jobs 1000 --mix mix1 --shape helios --seed 1 -o json`,
	"unisched check": `
unisched check
unisched check --fix-snippets=fix.conf
unisched check -o json`,
	"unisched completion":            `source <(unisched completion bash)`,
	"unisched completion bash":       `unisched completion bash > /etc/bash_completion.d/unisched`,
	"unisched completion fish":       `unisched completion fish > ~/.config/fish/completions/unisched.fish`,
	"unisched completion powershell": `unisched completion powershell | Out-String | Invoke-Expression`,
	"unisched completion zsh":        `unisched completion zsh > "${fpath[1]}/_unisched"`,
	"unisched config":                `unisched config validate`,
	"unisched config show": `
unisched config show
unisched config show -o json`,
	"unisched config validate": `
unisched config validate
unisched config validate new.toml`,
	"unisched debug": `unisched debug bundle`,
	"unisched debug bundle": `
unisched debug bundle
unisched debug bundle --out /tmp/bundle.tar.gz --rounds 10`,
	"unisched eval": `unisched eval speed --data tables/ --format pollux`,
	"unisched eval curves": `
unisched eval curves --data curves.csv --format mlperf
unisched eval curves --data imagenet.csv --format pollux --milestones 30/60/80 -o json`,
	"unisched eval durations": `unisched eval durations --data-dir data --jobs 400`,
	"unisched eval speed": `
unisched eval speed --data tables/ --format pollux
unisched eval speed --data times.csv --format iteration-times --node-gpus 4 -o json`,
	"unisched events": `
unisched events
unisched events 1234
unisched events -f
unisched events -f -o json | jq -r .kind`,
	"unisched help": `unisched help plan diff`,
	"unisched lint": `
unisched lint 'unisched:class=strict,deadline=now+6h,ckpt=USR1+99,stop=iters:90000'
unisched lint --file train.sh`,
	"unisched man":           `unisched man | man -l -`,
	"unisched parse":         `unisched parse gres 'gpu:v100:8(S:0-1)'`,
	"unisched parse comment": `unisched parse comment 'phase 2; unisched:class=besteffort,ckpt=USR1'`,
	"unisched parse gres":    `unisched parse gres 'gpu:v100:8(S:0-1)'`,
	"unisched parse hostlist": `
unisched parse hostlist 'n[01-04,7],login'
sinfo -ho %N | unisched parse hostlist -`,
	"unisched parse tres": `unisched parse tres 'cpu=1,mem=62.5G,gres/gpu=4' -o json`,
	"unisched pause":      `unisched pause`,
	"unisched plan": `
unisched plan
unisched plan --dry-run
unisched plan --explain --job 1234
unisched plan --snapshot round.json -o json`,
	"unisched release": `
unisched release 1234
unisched release --all
unisched release --if-down 60s`,
	"unisched replay": `
unisched replay --policy unisched,backfill,srsf
unisched replay --rounds copy1 --rounds copy2 --for besteffort -o json`,
	"unisched report": `unisched report slo --since 30d`,
	"unisched report forecast": `
unisched report forecast --since 7d
unisched report forecast -o json`,
	"unisched resume": `unisched resume`,
	"unisched sim": `
unisched sim --format chronus --trace trace.csv --until 2d --nodes 64 --policy unisched,srsf --oracle
unisched sim --format helios-like --trace summary.csv --days 2 --nodes 24 --workload mix2 --policy unisched,edf,srsf --out report
unisched sim --format sacct --trace sacct.txt --nodes 16 --policy unisched -o json`,
	"unisched version": `unisched version`,
}

// exemplify gives every command below c, and c, its examples.
func exemplify(c *cobra.Command) {
	if c.Example == "" {
		for line := range strings.Lines(strings.TrimSpace(examples[c.CommandPath()])) {
			c.Example += "  " + line
		}
	}
	for _, sub := range c.Commands() {
		exemplify(sub)
	}
}
