package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"unisched/bridge/control"
	"unisched/planner"
)

const maxSnapshotBytes = 256 << 20

func (a *app) planCommand() *cobra.Command {
	var dry bool
	var file string
	c := &cobra.Command{
		Use: "plan", Short: "The newest plan, or one made now and not carried out", Args: cobra.NoArgs,
		Long: "Shows the plan that the daemon follows. With --dry-run a plan is made here from the daemon's newest snapshot, or from a\n" +
			"stored one (--snapshot), and carried out by nobody.",
		RunE: do(func(cmd *cobra.Command, _ []string) error {
			if !dry && file == "" {
				return a.show(cmd, control.PathPlan, func(raw []byte) error {
					p, err := decode[planner.Plan](raw)
					if err == nil && a.output == "table" {
						a.plan(p)
					}
					return err
				})
			}
			return a.dryRun(cmd, file)
		}),
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "make a plan now and carry it out nowhere")
	c.Flags().StringVar(&file, "snapshot", "", "plan from a stored snapshot (`file`, - for standard input); implies --dry-run")
	return c
}

func (a *app) dryRun(cmd *cobra.Command, file string) error {
	site, _, err := a.site()
	if err != nil {
		return err
	}
	s, err := a.snapshot(cmd, file)
	if err != nil {
		return err
	}
	if s.Now.IsZero() || s.Unit <= 0 {
		return fmt.Errorf("the snapshot is empty: the daemon has made no plan yet; try again after its first round")
	}
	p := a.policy(site, a.now).Plan(cmd.Context(), s)
	if a.output == "json" {
		return a.json(p)
	}
	a.plan(p)
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
	var s planner.Snapshot
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, fmt.Errorf("snapshot %s: %w", file, err)
	}
	return s, nil
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
	item(a.out, "Plan", "%s, made %s", p.ID, a.moment(p.Now))
	solver := p.Solver.Status
	if p.Solver.Error != "" {
		solver += " (" + p.Solver.Error + ")"
	}
	item(a.out, "Found by", "%s, objective %.4g, margin %.4g; solver: %s", p.Candidate, p.Objective, p.Margin, solver)
	t := table{head: []string{"RANK", "RUN", "DECIDES", "WHERE", "LEASE", "START", "FINISH", "REASON"},
		bound: []int{4, 20, 7, 24, 7, 7, 7, 12}, flex: 3}
	for _, e := range p.Entries {
		where := "-"
		if len(e.Placement) > 0 {
			where = e.Placement.String()
		}
		t.add(strconv.Itoa(e.Rank), e.Run.String(), string(e.Decision), where, a.ahead(e.LeaseUntil), a.ahead(e.StartBy), a.ahead(e.Finish),
			e.Reason.Code)
	}
	t.write(a.out)
}
