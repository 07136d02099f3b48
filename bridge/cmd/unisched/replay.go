package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"unisched/bridge"
	"unisched/bridge/replay"
	"unisched/bridge/sim"
	"unisched/bridge/siteconfig"
	"unisched/planner"
	"unisched/planner/milp/highs"
)

const replayLong = `Reads the rounds that a daemon has stored (state_dir/rounds: what it saw, what it planned, who has ended since) and tells what really happened, how
good its forecasts were, and what each policy would have done with the same jobs and their true run times: those are played on a simulated cluster
of the same size, and some of the stored rounds are planned again. Then each stage is called ready or not, by the thresholds of [replay] in the
configuration. Exit code 2: the next stage (or that of --for) is not ready.

Several folders may be named: copies that were put aside before the daemon removed the oldest rounds.`

// replayFlags are what the command was told.
type replayFlags struct {
	dirs     []string
	policies []string
	stage    string
	plans    int
	oracle   bool
	quiet    bool
	parallel int
	seed     uint64
	noise    float64
}

func (a *app) replayCommand() *cobra.Command {
	var f replayFlags
	c := &cobra.Command{
		Use: "replay", Short: "Stored rounds of a live cluster under any policy, and what stage is ready", Args: cobra.NoArgs, Long: replayLong,
		RunE: do(func(cmd *cobra.Command, _ []string) error { return a.replay(cmd.Context(), f) }),
	}
	s := c.Flags()
	s.StringSliceVar(&f.dirs, "rounds", nil, "`folder` of rounds, repeated for several (default state_dir/rounds)")
	s.StringSliceVar(&f.policies, "policy", []string{"unisched"}, "policies, separated by commas; the first is judged: "+strings.Join(simPolicies(), ", "))
	s.StringVar(&f.stage, "for", "", "stage to be judged: canary, besteffort, soft or strict (default: the one after the configured stage)")
	s.IntVar(&f.plans, "plans", 40, "stored rounds to be planned again by each policy, evenly spread (0: none)")
	s.BoolVar(&f.oracle, "oracle", false, "let the policies know the true run times")
	s.Uint64Var(&f.seed, "seed", 1, "seed of the simulation")
	s.Float64Var(&f.noise, "noise", 0.05, "relative spread of the speed of runs")
	s.IntVar(&f.parallel, "parallel", 0, "policies at the same time (0: one per core)")
	s.BoolVar(&f.quiet, "quiet", false, "no progress")
	return c
}

// replayed is one policy, or what happened.
type replayed struct {
	sim.Figures
	// Again are the rounds planned again; of those Unproven had no proof in time, Old came from an old plan, Bad were refused. Feasible is the share of waiting and
	// running SLO jobs in them for which the plan counts on a deadline.
	Again    int      `json:"plans_again"`
	Unproven int      `json:"plans_unproven"`
	Old      int      `json:"plans_cached"`
	Bad      int      `json:"plans_refused_again"`
	Feasible *float64 `json:"slo_feasible"`
}

type replayDoc struct {
	Schema   int              `json:"schema_version"`
	From     time.Time        `json:"from"`
	Until    time.Time        `json:"until"`
	Rounds   int              `json:"rounds"`
	Jobs     int              `json:"jobs_ended"`
	Open     int              `json:"jobs_open"`
	Nodes    int              `json:"nodes"`
	PerNode  int              `json:"gpus_per_node"`
	Note     string           `json:"note"`
	Happened sim.Figures      `json:"happened"`
	Policies []replayed       `json:"policies"`
	Stages   []replay.Verdict `json:"stages"`
	For      bridge.Stage     `json:"for,omitempty"`
	Ready    bool             `json:"ready"`
}

// replay is the whole of the command.
func (a *app) replay(ctx context.Context, f replayFlags) error {
	site, _, err := a.site()
	if err != nil {
		return err
	}
	for _, p := range f.policies {
		if !slices.Contains(simPolicies(), p) {
			return coded{exitUsage, fmt.Errorf("--policy %q is none of %s", p, strings.Join(simPolicies(), ", "))}
		}
	}
	stage := bridge.Stage(f.stage)
	if stage == "" {
		stage = replay.Next(site.Bridge.Stage)
	} else if !slices.Contains([]bridge.Stage{bridge.Canary, bridge.StageBestEffort, bridge.StageSoft, bridge.StageStrict}, stage) {
		return coded{exitUsage, fmt.Errorf("--for %q is none of canary, besteffort, soft, strict", f.stage)}
	}
	doc, err := a.judgeStage(ctx, f, site, stage)
	if err != nil {
		return err
	}
	if a.output == "json" {
		err = a.json(doc)
	} else {
		a.replayShow(doc, f.policies[0])
	}
	if err == nil && !doc.Ready {
		return coded{exitRisk, nil}
	}
	return err
}

// judgeStage reads the rounds, plays them, and judges the stages.
func (a *app) judgeStage(ctx context.Context, f replayFlags, site siteconfig.Site, stage bridge.Stage) (replayDoc, error) {
	if len(f.dirs) == 0 {
		f.dirs = []string{filepath.Join(site.Daemon.StateDir, "rounds")}
	}
	records, err := replay.Open(f.dirs...)
	if err != nil {
		return replayDoc{}, fmt.Errorf("%w\nThe daemon stores its rounds in state_dir/rounds; name another folder with --rounds", err)
	}
	progress := a.newTicker(f.quiet)
	h, err := replay.Load(records, func(done, all int) {
		progress.say("rounds read: %d of %d", done, all)
	})
	progress.end()
	if err != nil {
		return replayDoc{}, err
	}
	doc := replayDoc{Schema: 1, From: h.From, Until: h.Until, Rounds: h.Rounds, Jobs: len(h.Outcomes), Open: h.Open, Nodes: h.Nodes, PerNode: h.PerNode, Note: h.Note,
		Happened: h.Happened, For: stage}
	if doc.Policies, err = a.replayAll(ctx, f, site, h, records); err != nil {
		return replayDoc{}, err
	}
	judged := sim.Figures{}
	if len(doc.Policies) > 0 {
		judged = doc.Policies[0].Figures
	}
	doc.Stages = replay.Judge(h, judged, site.Replay)
	doc.Ready = stage == ""
	for _, v := range doc.Stages {
		if v.Stage == stage {
			doc.Ready = v.Ready
		}
	}
	return doc, nil
}

// replayAll tries the policies on the jobs that completed, and on some of the rounds.
func (a *app) replayAll(ctx context.Context, f replayFlags, site siteconfig.Site, h *replay.History, records replay.Records) ([]replayed, error) {
	jobs, speeds := h.Trace()
	if len(jobs) == 0 {
		return nil, nil
	}
	sf := simFlags{policies: f.policies, nodes: h.Nodes, perNode: h.PerNode, unit: h.Unit, sloUnits: h.SLOUnits, solverLimit: site.Planner.SolverLimit,
		ratio: site.Planner.RewardRatio, parallel: f.parallel, quiet: f.quiet}
	cfg := sim.Config{Nodes: h.Nodes, GPUsPerNode: h.PerNode, Unit: h.Unit, SLOUnits: h.SLOUnits, Seed: f.seed, Noise: f.noise, Speeds: speeds, Clock: a.now,
		Oracle: f.oracle, Profile: site.Bridge.ProfileTime}
	if f.oracle || site.Bridge.ProfilePartition == "" {
		cfg.Profile = 0
	}
	results, err := a.simAll(ctx, sf, cfg, jobs)
	if err != nil {
		return nil, err
	}
	var out []replayed
	for i, r := range results {
		p, err := sf.simPolicy(f.policies[i], highs.New(highs.Options{}))
		if err != nil {
			return nil, err
		}
		x := replayed{Figures: r.Figures}
		if err := x.planAgain(ctx, p, records, f.plans); err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	return out, nil
}

// planAgain lets the policy plan some of the stored rounds.
func (x *replayed) planAgain(ctx context.Context, p bridge.Policy, records replay.Records, most int) error {
	step := max((records.Len()+most-1)/max(most, 1), 1)
	slo, met := 0, 0
	for i := 0; i < records.Len() && most > 0; i += step {
		r, err := records.Read(i)
		if err != nil {
			return err
		}
		plan := p.Plan(ctx, r.Snapshot)
		x.Again++
		if !plan.Solver.Proven() {
			x.Unproven++
		}
		if plan.Candidate == "fallback" {
			x.Old++
		}
		if len(planner.Check(r.Snapshot, plan)) > 0 {
			x.Bad++
		}
		for k, e := range plan.Entries {
			if k < len(r.Snapshot.Jobs) && r.Snapshot.Jobs[k].Class.SLO() {
				slo++
				if e.Tier >= 0 {
					met++
				}
			}
		}
	}
	if slo > 0 {
		share := float64(met) / float64(slo)
		x.Feasible = &share
	}
	return nil
}

// replayShow is the answer for people.
func (a *app) replayShow(doc replayDoc, judged string) {
	item(a.out, "Records", "%d rounds over %s, %d jobs ended, %d still open", doc.Rounds, span(doc.Until.Sub(doc.From)), doc.Jobs, doc.Open)
	item(a.out, "Cluster", "%d x %d GPUs: %s", doc.Nodes, doc.PerNode, doc.Note)
	item(a.out, "Solver", "of the daemon: %d rounds without a proof in time, %d with an old plan", doc.Happened.SolverTimeouts, doc.Happened.CachedRounds)
	h := doc.Happened
	item(a.out, "Forecasts", "%d, error %s %%, bias %s %%, %s %% of the truths within the 80 %% interval", h.Forecasts, scaled(h.ForecastError, 100, 1), scaled(h.ForecastBias, 100, 1),
		scaled(h.ForecastCover, 100, 0))
	fmt.Fprintln(a.out)
	t := table{head: []string{"", "MISS %", "BE min", "BE P99", "JCT", "WAIT", "HOLES %", "STOPS", "LEFT", "UNPROVEN", "FEASIBLE %"},
		bound: []int{10, 6, 7, 7, 7, 7, 7, 6, 5, 8, 10}, flex: 0}
	row := func(name string, f sim.Figures, unproven, feasible string) {
		t.add(name, scaled(f.WeightedMiss, 100, 2), scaled(f.BEJCTMean, 1./60, 1), scaled(f.BEJCTP99, 1./60, 0), scaled(f.JCTMean, 1./60, 1), scaled(f.WaitMean, 1./60, 1),
			scaled(f.HoleShare, 100, 2), strconv.Itoa(f.Preemptions), strconv.Itoa(f.Unfinished), unproven, feasible)
	}
	row("happened", h, fmt.Sprintf("%d/%d", h.SolverTimeouts, h.Rounds), "")
	for _, p := range doc.Policies {
		row(p.Name, p.Figures, fmt.Sprintf("%d/%d", p.Unproven, p.Again), scaled(p.Feasible, 100, 0))
	}
	t.write(a.out)
	fmt.Fprintln(a.out, "Times in minutes. UNPROVEN: plans without a proof in time, of those made.\nFEASIBLE: SLO jobs whose plan counts on a deadline.")
	if len(doc.Policies) == 0 {
		fmt.Fprintln(a.out, "No job has completed yet: nothing to try a policy on.")
	}
	fmt.Fprintln(a.out)
	v := table{head: []string{"STAGE", "", "ASKS FOR", "IS", "LIMIT"}, bound: []int{10, 9, 36, 10, 16}, flex: 2}
	for _, s := range doc.Stages {
		word := "not ready"
		if s.Ready {
			word = "ready"
		}
		name := string(s.Stage)
		for _, c := range s.Conditions {
			mark := ""
			if !c.Met {
				mark = " !"
			}
			v.add(name, word, c.What, c.Value+mark, c.Asked)
			name, word = "", ""
		}
	}
	v.write(a.out)
	if doc.For != "" {
		word := "NOT READY"
		if doc.Ready {
			word = "READY"
		}
		fmt.Fprintf(a.out, "\n%s for stage %s, judged with policy %s.\n", word, doc.For, judged)
	}
}

// shadowRounds stores the rounds of a simulated daemon that only looks.
type shadowRounds struct {
	dir  string
	last string
	at   time.Time
	err  error
}

func (r *shadowRounds) keep(v *bridge.View) {
	if r.err != nil || v.LastPlan.ID == "" || !v.LastPlan.Now.Equal(v.Snapshot.Now) {
		return
	}
	x := replay.Round{Schema: 1, Snapshot: v.Snapshot, Plan: v.LastPlan, Ended: replay.EndedSince(v, r.at)}
	if name := x.Name(); name != "" && name != r.last {
		r.err = x.Store(r.dir)
		r.last, r.at = name, v.At
	}
}
