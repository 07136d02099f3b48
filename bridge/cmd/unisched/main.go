// Command unisched is what people type: it asks the daemon over its control socket, checks what users write, reads Slurm's notations, and
// gives jobs back to plain Slurm when the daemon is gone.
//
// It decides nothing that the daemon decides. Exit codes: 0 ok, 1 error, 2 infeasible or at risk, 3 degraded, 64 usage.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"unisched/bridge"
	"unisched/bridge/control"
	"unisched/bridge/siteconfig"
	"unisched/planner/milp"
	"unisched/planner/milp/highs"
)

func main() {
	highs.MaybeChild()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.Getenv, now: time.Now, zone: time.Local,
		policy: newPolicy, release: releaseDead, logs: systemLog, solve: highs.New(highs.Options{})}
	os.Exit(a.run(ctx, os.Args[1:]))
}

// The exit codes.
const (
	exitOK       = 0
	exitError    = 1
	exitRisk     = 2
	exitDegraded = 3
	exitUsage    = 64
)

// app is the command line with everything that it touches.
type app struct {
	in       io.Reader
	out, err io.Writer
	env      func(string) string
	now      func() time.Time
	zone     *time.Location // of the instants shown

	policy  func(siteconfig.Site, func() time.Time) bridge.Policy
	release releaser
	logs    func(context.Context) ([]byte, error) // the end of the daemon's log; nil: none
	solve   milp.Solver                           // nil: check tries none

	output, config, socket string // flags
}

// coded is an error or a finding with its exit code. A nil err is said already.
type coded struct {
	code int
	err  error
}

func (c coded) Error() string {
	if c.err == nil {
		return fmt.Sprintf("exit code %d", c.code)
	}
	return c.err.Error()
}

func (c coded) Unwrap() error { return c.err }

// run carries out one command line and returns its exit code.
func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	c, ok := errors.AsType[coded](err)
	if !ok { // what cobra itself found wrong: flags, arguments, names of commands
		c = coded{exitUsage, err}
	}
	if todo := a.next(cmd, c); c.err != nil && todo != "" {
		c.err = fmt.Errorf("%w\n%s", c.err, todo)
	}
	if c.err != nil {
		fmt.Fprintf(a.err, "unisched: %s\n", clean(c.err.Error(), true))
		if a.output == "json" {
			a.json(control.Problem{Schema: bridge.ViewSchema, Error: c.err.Error()})
		}
	}
	return c.code
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use: "unisched", Short: "Deadline-aware scheduling of training jobs on Slurm",
		Long: "UniSched decides which training jobs hold which GPUs, so that deadlines are met, and lets plain Slurm carry it out.\n\n" +
			"Exit codes: 0 ok, 1 error, 2 infeasible or at risk, 3 degraded, 64 usage.",
		SilenceErrors: true, SilenceUsage: true,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if a.output != "table" && a.output != "json" && (a.output != "csv" || cmd.Annotations[withCSV] == "") {
				return fmt.Errorf("-o %s: want table or json", a.output)
			}
			return nil
		},
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	f := root.PersistentFlags()
	f.StringVarP(&a.output, "output", "o", "table", "table or json")
	f.StringVar(&a.config, "config", "", "configuration `file` (default $UNISCHED_CONFIG, else "+siteconfig.DefaultPath+")")
	f.StringVar(&a.socket, "socket", "", "control socket of the daemon (default $UNISCHED_SOCKET, else the configuration's)")
	root.AddCommand(
		a.statusCommand(),
		a.jobsCommand(),
		a.jobCommand(),
		a.explainCommand(),
		a.whatIfCommand(),
		a.planCommand(),
		a.ganttCommand(),
		a.manCommand(),
		a.lintCommand(),
		a.parseCommand(),
		a.releaseCommand(),
		a.orderCommand(bridge.OrderPause),
		a.orderCommand(bridge.OrderResume),
		a.stageCommand(),
		a.checkCommand(),
		a.configCommand(),
		a.evalCommand(),
		a.reportCommand(),
		a.postmortemCommand(),
		a.assessCommand(),
		a.benchCommand(),
		a.simCommand(),
		a.replayCommand(),
		a.eventsCommand(),
		a.debugCommand(),
		a.versionCommand(),
	)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	exemplify(root)
	return root
}

// do makes a command's function return coded errors, so that what is left without a code is a matter of usage.
func do(f func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := f(cmd, args)
		if err == nil {
			return nil
		}
		if c, ok := errors.AsType[coded](err); ok {
			return c
		}
		return coded{exitError, err}
	}
}

// json writes one document for scripts.
func (a *app) json(doc any) error {
	b, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return fmt.Errorf("document: %w", err)
	}
	_, err = a.out.Write(append(b, '\n'))
	return err
}

// site loads the configuration. A missing file at the default place means the defaults: users' machines have none.
func (a *app) site() (siteconfig.Site, []siteconfig.Setting, error) {
	path := a.config
	if path == "" {
		path = a.env("UNISCHED_CONFIG")
	}
	if path == "" {
		site, settings, err := siteconfig.Load(siteconfig.DefaultPath)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return siteconfig.Parse(siteconfig.File{Name: "defaults"})
		}
		return site, settings, err
	}
	return siteconfig.Load(path)
}

// client is the way to the daemon.
func (a *app) client() (control.Client, error) {
	path := a.socket
	if path == "" {
		path = a.env("UNISCHED_SOCKET")
	}
	if path == "" {
		site, _, err := a.site()
		if err != nil {
			return control.Client{}, err
		}
		path = site.Daemon.ControlSocket
	}
	return control.Client{Path: path}, nil
}

// hint adds what to do next to an error of the client.
func hint(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, control.ErrDown):
		return fmt.Errorf("%w\nJobs run as plain Slurm jobs meanwhile. Look at: systemctl status unischedd; or say where it is: --config FILE, --socket PATH, or $UNISCHED_CONFIG", err)
	case errors.Is(err, control.ErrDenied):
		return fmt.Errorf("%w\nAsk your admins for access (daemon.socket_mode and socket_group of the configuration)", err)
	case errors.Is(err, control.ErrNoJob):
		return fmt.Errorf("%w\nLook at: unisched jobs; or at Slurm itself: squeue, sacct", err)
	}
	if r, ok := errors.AsType[*control.Refusal](err); ok && r.Status == 403 {
		return fmt.Errorf("%w\nRun it as root, or as one of the operators", err)
	}
	return err
}

// show answers a command with one document of the daemon: as it is for scripts, or by table for people.
func (a *app) show(cmd *cobra.Command, path string, table func(raw []byte) error) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	raw, err := c.Raw(cmd.Context(), path)
	if err != nil {
		return hint(err)
	}
	if a.output == "json" {
		if err := a.json(json.RawMessage(raw)); err != nil {
			return err
		}
	}
	return table(raw)
}
