package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"unisched/bridge"
	"unisched/slurm/gres"
	"unisched/slurm/hostlist"
)

// Documents of the parse commands.
type (
	gresDoc struct {
		Schema  int         `json:"schema_version"`
		Entries []gresEntry `json:"entries"`
		GPUs    int64       `json:"gpus"` // whole GPUs
	}
	gresEntry struct {
		Name    string `json:"name"`
		Type    string `json:"type,omitempty"`
		Count   int64  `json:"count"`
		Indices []int  `json:"indices,omitempty"`
		Sockets []int  `json:"sockets,omitempty"`
		Kind    string `json:"kind"` // gpu, mig, shared, other
	}
	tresDoc struct {
		Schema  int         `json:"schema_version"`
		GPUs    int64       `json:"gpus"`
		ByType  []typeCount `json:"gpus_by_type"`
		Shared  bool        `json:"shared"` // shards, MPS or MIG slices too
		CPUs    int64       `json:"cpus"`
		MemMB   int64       `json:"mem_mb"`
		Nodes   int64       `json:"nodes"`
		Billing int64       `json:"billing"`
	}
	typeCount struct {
		Type  string `json:"type"`
		Count int64  `json:"count"`
	}
	hostDoc struct {
		Schema int      `json:"schema_version"`
		Count  int      `json:"count"`
		Nodes  []string `json:"nodes"`
		Short  string   `json:"short"`
	}
)

func (a *app) parseCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "parse", Short: "Read one of Slurm's notations the way the daemon does",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return fmt.Errorf("parse: want gres, tres, hostlist or comment") },
	}
	sub := func(use, short string, f func(string) error) {
		c.AddCommand(&cobra.Command{Use: use + " STRING", Short: short, Args: cobra.ExactArgs(1), RunE: do(func(cmd *cobra.Command, args []string) error {
			s := args[0]
			if s == "-" {
				raw, err := a.read("-", hostlist.MaxInput+1)
				if err != nil {
					return err
				}
				s = strings.TrimSuffix(string(raw), "\n")
			}
			return f(s)
		})})
	}
	sub("gres", `Generic resources, such as "gpu:v100:8(S:0-1)"; - reads standard input`, a.parseGRES)
	sub("tres", `TRES, such as "cpu=1,gres/gpu=4"; - reads standard input`, a.parseTRES)
	sub("hostlist", `Node names, such as "n[01-04,7],login"; - reads standard input`, a.parseHostlist)
	sub("comment", "What a user writes for UniSched, as lint does; - reads standard input", func(s string) error { return a.lint(script{text: s}) })
	return c
}

func (a *app) parseGRES(s string) error {
	entries, err := gres.Parse(s)
	if err != nil {
		return err
	}
	doc := gresDoc{Schema: bridge.ViewSchema, Entries: []gresEntry{}}
	for _, e := range entries {
		kind := "other"
		switch {
		case e.MIG():
			kind = "mig"
		case e.Shared():
			kind = "shared"
		case e.GPU():
			kind = "gpu"
			doc.GPUs += e.Count
		}
		doc.Entries = append(doc.Entries, gresEntry{e.Name, e.Type, e.Count, e.Indices, e.Sockets, kind})
	}
	if a.output == "json" {
		return a.json(doc)
	}
	t := table{head: []string{"NAME", "TYPE", "COUNT", "KIND", "INDICES", "SOCKETS"}, bound: []int{12, 30, 14, 6, 20, 12}, flex: 1}
	for _, e := range doc.Entries {
		t.add(e.Name, dash(e.Type), fmt.Sprint(e.Count), e.Kind, dash(ints(e.Indices)), dash(ints(e.Sockets)))
	}
	t.write(a.out)
	fmt.Fprintf(a.out, "%d whole GPUs\n", doc.GPUs)
	return nil
}

func (a *app) parseTRES(s string) error {
	t, err := gres.ParseTRES(s)
	if err != nil {
		return err
	}
	doc := tresDoc{bridge.ViewSchema, t.GPUs, []typeCount{}, t.Shared, t.CPUs, t.MemMB, t.Nodes, t.Billing}
	for _, c := range t.ByType {
		doc.ByType = append(doc.ByType, typeCount{c.Type, int64(c.Count)})
	}
	if a.output == "json" {
		return a.json(doc)
	}
	item(a.out, "GPUs", "%d", doc.GPUs)
	for _, c := range doc.ByType {
		item(a.out, "", "%d of type %s", c.Count, c.Type)
	}
	if doc.Shared {
		item(a.out, "", "and shards, MPS or MIG slices")
	}
	item(a.out, "CPUs", "%d", doc.CPUs)
	item(a.out, "Memory", "%d MiB", doc.MemMB)
	item(a.out, "Nodes", "%d", doc.Nodes)
	item(a.out, "Billing", "%d", doc.Billing)
	return nil
}

func (a *app) parseHostlist(s string) error {
	names, err := hostlist.Expand(s)
	if err != nil {
		return err
	}
	if names == nil {
		names = []string{}
	}
	if a.output == "json" {
		return a.json(hostDoc{bridge.ViewSchema, len(names), names, hostlist.Compress(names)})
	}
	for _, n := range names {
		fmt.Fprintln(a.out, n)
	}
	return nil
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func ints(ns []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ns), " ", ","), "[]")
}
