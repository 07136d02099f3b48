package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"unisched/bridge"
	"unisched/bridge/sim"
	"unisched/bridge/sim/report"
	"unisched/bridge/sim/trace"
	"unisched/planner/lease"
	"unisched/planner/milp"
	"unisched/planner/milp/highs"
	"unisched/planner/policy"
	"unisched/planner/reward"
)

// simPolicies are the names that --policy knows, ours first.
func simPolicies() []string { return append([]string{"unisched"}, policy.Names()...) }

// simPolicy makes one policy with a solver, which should be its own.
func (f simFlags) simPolicy(name string, solve milp.Solver) (bridge.Policy, error) {
	// Nodes are what bounds a solve; the clock only stops a solver that has gone astray.
	limits := milp.Limits{Nodes: max(int(500*f.solverLimit.Seconds()), 1), Time: 20 * f.solverLimit}
	if p, ok := reservedPolicy(name); ok {
		return p, nil
	}
	if name != "unisched" {
		o := policy.Options{Solve: solve, Limits: limits, ChronusEstimates: f.estimates == "chronus", ChronusLease: f.chronusLease}
		if f.overhead == "chronus" {
			o.ChronusTick = 5 * time.Minute
		}
		if f.ablated("fixed-profile") {
			o.ProfileNodes = f.profileNodes()
		}
		return policy.New(name, o)
	}
	c := lease.Config{Reward: reward.Config{Ratio: f.ratio / 10}, Limits: limits, OneStage: f.ablated("no-second-stage"),
		SingleCandidate: f.ablated("single-candidate")}
	if f.ablated("no-margins") {
		const none = 1e-9
		c.Beta, c.Delta, c.Rho, c.Risk, c.FixedRisk = none, none, 1, none, true
	}
	return lease.New(c, solve), nil
}

// profileNodes is how many nodes a fixed profiling partition has: a fiftieth of all.
func (f simFlags) profileNodes() int { return max(1, (f.nodes+49)/50) }

// simAll runs the policies, as many at a time as there are cores.
func (a *app) simAll(ctx context.Context, f simFlags, cfg sim.Config, jobs []trace.Job) ([]sim.Result, error) {
	n := f.parallel
	if n <= 0 {
		n = runtime.GOMAXPROCS(0)
	}
	results, errs := make([]sim.Result, len(f.policies)), make([]error, len(f.policies))
	slots := make(chan struct{}, n)
	bar := a.newBar(f, len(jobs))
	var wg sync.WaitGroup
	for i, name := range f.policies {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			c := cfg
			c.Progress = bar.of(i)
			if name == "unisched" && f.estimates == "chronus" { // the rivals apply the rule themselves
				c.Lenses = append(slices.Clone(c.Lenses), sim.ChronusEstimates)
			}
			solve, end := highs.Open(highs.Options{})
			defer end()
			p, err := f.simPolicy(name, solve)
			if err != nil {
				errs[i] = err
				return
			}
			began := a.now()
			r, err := sim.Run(ctx, c, jobs, p)
			r.Name, r.Wall = name, a.now().Sub(began).Seconds()
			results[i] = r
			if ctx.Err() != nil {
				errs[i] = ctx.Err()
			} else if err != nil && r.Error == "" {
				errs[i] = err
			}
			bar.done(i)
		})
	}
	wg.Wait()
	bar.end()
	return results, errors.Join(errs...)
}

// bar is the line of progress of all policies together.
type bar struct {
	mu    sync.Mutex
	to    *ticker
	began time.Time
	jobs  int
	ended []int
}

func (a *app) newBar(f simFlags, jobs int) *bar {
	return &bar{to: a.newTicker(f.quiet), began: a.now(), jobs: jobs, ended: make([]int, len(f.policies))}
}

func (b *bar) of(i int) func(sim.Progress) {
	return func(p sim.Progress) { b.set(i, p.Ended) }
}

func (b *bar) done(i int) { b.set(i, b.jobs) }

func (b *bar) set(i, ended int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended[i] = ended
	sum := 0
	for _, n := range b.ended {
		sum += n
	}
	share := float64(sum) / float64(max(b.jobs*len(b.ended), 1))
	eta := "?"
	if spent := b.to.now().Sub(b.began); share > 0.01 {
		eta = (time.Duration(float64(spent)/share) - spent).Round(time.Second).String()
	}
	full := int(30 * min(share, 1))
	b.to.say("[%s%s] %3.0f %% of %d jobs x %d policies, left: %s", strings.Repeat("#", full), strings.Repeat(".", 30-full), 100*share, b.jobs,
		len(b.ended), eta)
}

func (b *bar) end() { b.to.end() }

type simDoc struct {
	Schema   int           `json:"schema_version"`
	Policies []sim.Figures `json:"policies"`
	Trace    report.Trace  `json:"trace"`
}

// simShow writes the figures.
func (a *app) simShow(f simFlags, t trace.Trace, results []sim.Result) error {
	doc := simDoc{Schema: 1, Trace: f.traceDoc(t)}
	for _, r := range results {
		doc.Policies = append(doc.Policies, r.Figures)
	}
	if f.out != "" {
		if err := a.simOut(f, t, results); err != nil {
			return err
		}
	}
	if a.output == "json" {
		return a.json(doc)
	}
	tb := table{head: []string{"POLICY", "MISS %", "STRICT %", "SOFT %", "BE min", "BE P99", "JCT", "STOPS", "LEFT", "WALL s"},
		bound: []int{11, 6, 8, 6, 7, 6, 6, 6, 5, 7}, flex: 0}
	for _, p := range doc.Policies {
		tb.add(p.Name, scaled(p.WeightedMiss, 100, 2), scaled(p.StrictMiss, 100, 2), scaled(p.SoftMiss, 100, 2), scaled(p.BEJCTMean, 1./60, 1),
			scaled(p.BEJCTP99, 1./60, 0), scaled(p.JCTMean, 1./60, 1), strconv.Itoa(p.Preemptions), strconv.Itoa(p.Unfinished), strconv.FormatFloat(p.Wall, 'f', 1, 64))
	}
	tb.write(a.out)
	return nil
}

func scaled(v *float64, by float64, digits int) string {
	if v == nil {
		return "-"
	}
	return strconv.FormatFloat(*v*by, 'f', digits, 64)
}

// strongRows reads the A100 throughput rows at the largest global batch of each file and hands them to the models in turn.
func (a *app) strongRows(f simFlags, models []string) (map[string]map[int]float64, error) {
	dir := f.dataDir
	if dir == "" {
		dir = a.env("UNISCHED_DATA")
	}
	if dir == "" {
		dir = filepath.Join("..", "shared", "data")
	}
	files, err := filepath.Glob(filepath.Join(dir, "throughput", "elasticflow_a100", "*.csv"))
	if err == nil && len(files) == 0 {
		err = errors.New("no tables: elastic jobs need them, name their folder with --data-dir")
	}
	if err != nil {
		return nil, fmt.Errorf("throughput tables below %s: %w", dir, err)
	}
	slices.Sort(files)
	var rows []map[int]float64
	for _, name := range files {
		r, err := strongRow(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		rows = append(rows, r)
	}
	out := map[string]map[int]float64{}
	for i, m := range models {
		out[m] = rows[i%len(rows)]
	}
	return out, nil
}

func strongRow(name string) (map[int]float64, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	table, err := csv.NewReader(file).ReadAll()
	if err != nil || len(table) < 2 {
		return nil, errors.Join(err, errors.New("no rows"))
	}
	row := map[int]float64{}
	for i, head := range table[0][1:] {
		g, err1 := strconv.Atoi(head)
		v, err2 := strconv.ParseFloat(table[len(table)-1][i+1], 64)
		if err1 != nil || err2 != nil || !(v > 0) {
			return nil, fmt.Errorf("column %q: no throughput", head)
		}
		row[g] = v
	}
	return row, nil
}
