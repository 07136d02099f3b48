package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"unisched/bridge/control"
	"unisched/bridge/siteconfig"
	"unisched/planner"
	"unisched/planner/lease"
)

const maxSnapshotBytes = 256 << 20

func (a *app) planCommand() *cobra.Command {
	var dry, why bool
	var file string
	var job int64
	c := &cobra.Command{
		Use: "plan", Short: "The newest plan, or one made now and not carried out", Args: cobra.NoArgs,
		Long: "Shows the plan that the daemon follows. With --dry-run a plan is made here from the daemon's newest snapshot, or from a\n" +
			"stored one (--snapshot: one of the daemon's state_dir/rounds, or a bare snapshot), and carried out by nobody. --explain tells for each\n" +
			"job every way there was, what it earns, and what would have to change for it to run now.",
		RunE: do(func(cmd *cobra.Command, _ []string) error {
			if !dry && file == "" && !why {
				return a.show(cmd, control.PathPlan, func(raw []byte) error {
					p, err := decode[planner.Plan](raw)
					if err == nil && a.output == "table" {
						a.plan(p)
					}
					return err
				})
			}
			return a.dryRun(cmd, file, why, planner.JobID(job))
		}),
	}
	c.AddCommand(a.planDiffCommand())
	c.Flags().BoolVar(&dry, "dry-run", false, "make a plan now and carry it out nowhere")
	c.Flags().StringVar(&file, "snapshot", "", "plan from a stored snapshot (`file`, - for standard input); implies --dry-run")
	c.Flags().BoolVar(&why, "explain", false, "why each job runs or waits; implies --dry-run")
	c.Flags().Int64Var(&job, "job", 0, "with --explain: this job `id` alone")
	return c
}

func (a *app) dryRun(cmd *cobra.Command, file string, why bool, job planner.JobID) error {
	site, _, err := a.site()
	if err != nil {
		return err
	}
	s, err := a.snapshot(cmd, file)
	if err != nil {
		return err
	}
	if s.Now.IsZero() || s.Unit <= 0 {
		if file != "" {
			return fmt.Errorf("snapshot is empty: %s is no round of state_dir/rounds, and no snapshot as the daemon's /v1/snapshot gives it", file)
		}
		return errors.New("the snapshot is empty: the daemon has made no plan yet; try again after its first round")
	}
	p := a.policy(site, a.now).Plan(cmd.Context(), s)
	if why {
		return a.why(site, s, p, job)
	}
	if a.output == "json" {
		return a.json(p)
	}
	a.plan(p)
	a.nodes(service(s))
	return nil
}

func (a *app) snapshot(cmd *cobra.Command, file string) (planner.Snapshot, error) {
	if file == "" {
		c, err := a.client()
		if err != nil {
			return planner.Snapshot{}, err
		}
		s, err := c.Snapshot(cmd.Context())
		return s, hint(err)
	}
	raw, err := a.read(file, maxSnapshotBytes)
	if err != nil {
		return planner.Snapshot{}, err
	}
	var s struct {
		planner.Snapshot
		Round *planner.Snapshot `json:"snapshot"` // of a stored round
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return planner.Snapshot{}, fmt.Errorf("snapshot %s: %w: want a round of state_dir/rounds, or a bare snapshot", file, err)
	}
	if s.Round != nil {
		return *s.Round, nil
	}
	return s.Snapshot, nil
}

// explained is a plan with the reasons for all of it.
type explained struct {
	Schema int                 `json:"schema_version"`
	Plan   planner.Plan        `json:"plan"`
	Jobs   []lease.Explanation `json:"jobs"`
	// Nodes are those that do not take everybody at once: out of service, asleep, to be closed.
	Nodes []planner.Node `json:"nodes,omitempty"`
}

// service lists the nodes that are not simply there.
func service(s planner.Snapshot) []planner.Node {
	var out []planner.Node
	for _, n := range s.Nodes {
		if !n.Usable || n.Wake > 0 || n.ClosesIn > 0 {
			out = append(out, n)
		}
	}
	return out
}

// nodes shows them.
func (a *app) nodes(nodes []planner.Node) {
	if len(nodes) == 0 {
		return
	}
	t := table{head: []string{"NODE", "GPUS", "NEW JOBS", "WHY"}, bound: []int{20, 4, 16, 36}, flex: 3}
	for _, n := range nodes {
		when, why := "no", n.Why
		switch {
		case !n.Usable:
		case n.Wake > 0:
			when = "in " + n.Wake.Round(time.Second).String()
		default:
			when, why = "end within "+n.ClosesIn.Round(time.Minute).String(), n.ClosedFor
		}
		t.add(n.Name, strconv.Itoa(n.GPUs), when, clean(why, false))
	}
	t.write(a.out)
}

// why tells for each job, or one, what the plan could have done with it.
func (a *app) why(site siteconfig.Site, s planner.Snapshot, p planner.Plan, job planner.JobID) error {
	doc := explained{Schema: 1, Plan: p, Nodes: service(s)}
	for _, x := range lease.ExplainAll(s, p, site.Lease(a.now)) {
		if job == 0 || x.Run.Job == job {
			doc.Jobs = append(doc.Jobs, x)
		}
	}
	if job != 0 && len(doc.Jobs) == 0 {
		return fmt.Errorf("job %d is not in the snapshot", job)
	}
	if a.output == "json" {
		return a.json(doc)
	}
	for _, x := range doc.Jobs {
		e, _ := p.Of(x.Run)
		fmt.Fprintf(a.out, "Job %s: %s (%s: %s)\n", x.Run, e.Decision, e.Reason.Code, clean(e.Reason.Text, false))
		slack := "no deadline counts"
		if x.Slack != nil {
			slack = fmt.Sprintf("%.1f to spare", *x.Slack)
		}
		item(a.out, "Units", "%.1f left, a suspension costs %.2f, %s", x.UnitsLeft, x.Suspension, slack)
		t := table{head: []string{"", "WAY", "SHAPE", "SPEED", "TIER", "REWARD", "BREAKS"}, bound: []int{1, 6, 12, 5, 4, 9, 40}, flex: 6}
		for _, w := range x.Ways {
			mark, shape, speed, tier := "", w.Shape, "-", "-"
			if w.Chosen {
				mark = "*"
			}
			if shape == "" {
				shape = "-"
			} else {
				speed = fmt.Sprintf("%.2f", w.Speed)
			}
			if w.Tier >= 0 {
				tier = strconv.Itoa(w.Tier)
			}
			t.add(mark, string(w.Decision), shape, speed, tier, fmt.Sprintf("%.4g", w.Reward), strings.Join(w.Breaks, "; "))
		}
		t.write(a.out)
		for _, need := range x.ToRun {
			item(a.out, "To run now", "%s", need)
		}
		fmt.Fprintln(a.out)
	}
	if job == 0 {
		a.nodes(doc.Nodes)
	}
	return nil
}

// read reads a file, or standard input for "-", of at most limit bytes.
func (a *app) read(file string, limit int64) ([]byte, error) {
	in := a.in
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	raw, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err == nil && int64(len(raw)) > limit {
		err = fmt.Errorf("%s: more than %d bytes", file, limit)
	}
	return raw, err
}

func (a *app) plan(p planner.Plan) {
	if p.ID == "" && len(p.Entries) == 0 {
		fmt.Fprintln(a.out, "No plan yet: the daemon plans at the next unit boundary.")
		return
	}
	made := p.Made // rounds come a little after the boundary for which they plan
	if made.IsZero() {
		made = p.Now
	}
	item(a.out, "Plan", "%s, made %s", p.ID, a.moment(made))
	solver := p.Solver.Status
	if p.Solver.Error != "" {
		solver += " (" + p.Solver.Error + ")"
	}
	item(a.out, "Found by", "%s, objective %.4g, margin %.4g; solver: %s", p.Candidate, p.Objective, p.Margin, solver)
	t := table{head: []string{"RANK", "RUN", "DECIDES", "WHERE", "LEASE", "START", "FINISH", "REASON"},
		bound: []int{4, 20, 7, 60, 7, 7, 7, 12}, flex: 3}
	for _, e := range p.Entries {
		where := "-"
		if len(e.Placement) > 0 {
			where = e.Placement.String()
		}
		t.add(strconv.Itoa(e.Rank), e.Run.String(), string(e.Decision), where, a.ahead(e.LeaseUntil), a.ahead(e.StartBy), a.ahead(e.Finish),
			e.Reason.Code)
	}
	a.print(&t)
}
