// Package gather collects the facts that package check judges: it asks slurmrestd, scontrol and the daemon, looks at files of this host and
// lets the solver solve something tiny.
//
// It only reads, and judges nothing. Each look is bounded and fails alone; what rests on something that is known to be away is not tried
// again and again, but carries that reason. `unisched check` calls it.
package gather

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"unisched/bridge/check"
	"unisched/bridge/control"
	"unisched/bridge/nodes"
	"unisched/bridge/siteconfig"
	"unisched/planner/milp"
	"unisched/slurm"
)

// Look says where to look.
type Look struct {
	Now      func() time.Time
	Version  string // of this program
	Site     siteconfig.Site
	SiteFrom string
	SiteErr  error
	// SlurmConf is the file; "" for where the controller says it is, when that file is on this host and of the same cluster.
	SlurmConf string
	Socket    string      // of the daemon
	Solve     milp.Solver // nil: not tried
	LookupUID func(name string) (uint32, error)
}

// Facts looks at everything.
func (l Look) Facts(ctx context.Context) check.Facts {
	f := check.Facts{Now: l.Now(), Version: l.Version, Site: l.Site, SiteFrom: l.SiteFrom, SiteErr: l.SiteErr}
	l.host(ctx, &f)
	if client, err := slurm.New(l.Site.Slurm.Options()); err != nil {
		l.without(&f, err)
	} else {
		defer client.Close()
		l.cluster(ctx, client, &f)
	}
	l.slurmFiles(&f)
	return f
}

// host is what this machine shows.
func (l Look) host(ctx context.Context, f *check.Facts) {
	if path := l.Site.Slurm.TokenFile; path != "" {
		f.Token = check.See(slurm.ReadToken(path))
		f.TokenFile = check.See(file(path, false))
	}
	if l.Site.Daemon.Listen != "" {
		f.NodeKey = check.See(file(l.Site.Daemon.NodeKeyFile, false))
	}
	f.StateDir = check.See(dir(l.Site.Daemon.StateDir))
	f.Solver = l.solver(ctx)
	f.Scontrol = check.See(scontrol(ctx, l.Site.Slurm))
	client := control.Client{Path: l.Socket, Timeout: 5 * time.Second}
	f.Daemon = check.See(client.Status(ctx))
	f.DaemonUID = l.daemonUID(f.Daemon.Err == nil)
	if f.Daemon.Err == nil && f.Daemon.V.Standby == "" && l.Site.Daemon.Listen != "" {
		f.Watchers = check.See(watchers(ctx, client))
	}
}

// daemonUID is who the daemon runs as: the owner of its socket, else the user whose name it has.
func (l Look) daemonUID(runs bool) check.Seen[uint32] {
	if runs {
		if s, err := file(l.Socket, false); err == nil {
			return check.See(s.UID, nil)
		}
	}
	if uid, err := l.LookupUID(l.Site.Slurm.User); err == nil {
		return check.See(uid, nil)
	}
	return check.Seen[uint32]{}
}

// watchers asks the daemon which nodes have reported.
func watchers(ctx context.Context, c control.Client) ([]check.Watcher, error) {
	raw, err := c.Raw(ctx, nodes.PathRoll)
	if err != nil {
		return nil, err
	}
	var roll nodes.Roll
	if err := json.Unmarshal(raw, &roll); err != nil {
		return nil, fmt.Errorf("watchers: %w", err)
	}
	var out []check.Watcher
	for _, w := range roll.Watchers {
		out = append(out, check.Watcher{Node: w.Node, Version: w.Version, Ahead: w.Ahead})
	}
	return out, nil
}

// solver has a tiny model solved, whose best value is 7.
func (l Look) solver(ctx context.Context) check.Seen[time.Duration] {
	if l.Solve == nil {
		return check.Seen[time.Duration]{}
	}
	var m milp.Model
	var idx []int32
	for _, value := range []float64{3, 4, 5} {
		idx = append(idx, int32(m.AddCol(value, 0, 1, true)))
	}
	m.AddRow(0, 5, idx, []float64{2, 3, 4})
	sol, err := l.Solve(ctx, &m, milp.Limits{Time: 2 * time.Second})
	if err == nil && (sol.X == nil || sol.Objective < 7-1e-6) {
		err = fmt.Errorf("it found %g where 7 is right (%s)", sol.Objective, sol.Status)
	}
	return check.See(sol.Wall, err)
}

// scontrol asks for the version only, which needs no controller.
func scontrol(ctx context.Context, s siteconfig.Slurm) (string, error) {
	if len(s.Scontrol) == 0 {
		return "", errors.New("none is configured")
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.Scontrol[0], append(append([]string{}, s.Scontrol[1:]...), "--version")...)
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", "HOME=/"}
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line[:min(len(line), 80)], err
}

// cluster is what slurmrestd shows. When it does not answer, or refuses us, the rest is not asked.
func (l Look) cluster(ctx context.Context, c *slurm.Client, f *check.Facts) {
	if err := f.Token.Err; err != nil && !errors.Is(err, slurm.ErrOpaque) {
		l.without(f, check.ErrNotAsked) // every call needs the token
		return
	}
	f.Surface = check.See(c.Surface(ctx))
	if err := f.Surface.Err; err != nil && noAnswer(err) {
		l.without(f, err)
		return
	}
	f.Pong = check.See(c.Ping(ctx))
	if err := f.Pong.Err; err != nil {
		l.without(f, err)
		return
	}
	f.Config = check.See(c.Config(ctx))
	user := f.Token.V.User
	if user == "" {
		user = l.Site.Slurm.User
	}
	f.Rights = check.See(c.Rights(ctx, user))
	f.Slurmds = check.See(c.Slurmds(ctx))
	f.Partitions = check.See(c.Partitions(ctx))
	for _, p := range f.Partitions.V {
		if p.Name == l.Site.Bridge.ProfilePartition && p.QOS != "" {
			f.QOS = check.See(c.QOS(ctx, p.QOS))
		}
	}
	f.Caps = check.See(c.GPUCaps(ctx))
	states, err := c.JobStates(ctx)
	f.Jobs = check.See(len(states), err)
	before := l.Now()
	at, err := c.Clock(ctx)
	after := l.Now()
	// The answer's second may have been any between the call and its end.
	f.Skew = check.See(check.Skew{Ahead: at.Add(time.Second / 2).Sub(before.Add(after.Sub(before) / 2)), Err: after.Sub(before)/2 + time.Second/2}, err)
}

// noAnswer says that nobody is there at all.
func noAnswer(err error) bool {
	var e *slurm.Error
	return errors.As(err, &e) && e.HTTP == 0
}

// without notes why nothing of the cluster was seen.
func (l Look) without(f *check.Facts, why error) {
	if !f.Surface.Did {
		f.Surface.Did, f.Surface.Err = true, why
	}
	if !f.Pong.Did {
		f.Pong.Did, f.Pong.Err = true, why
	}
	f.Rights = check.See(slurm.Rights{}, check.ErrNotAsked)
	f.Slurmds = check.See[[]slurm.Slurmd](nil, check.ErrNotAsked)
	f.Partitions = check.See[[]slurm.Partition](nil, check.ErrNotAsked)
	f.Caps = check.See[[]slurm.GPUCap](nil, check.ErrNotAsked)
	f.Skew = check.See(check.Skew{}, check.ErrNotAsked)
	f.Config = check.See(slurm.Config{}, check.ErrNotAsked)
}

// file looks at a file; text is read of scripts only.
func file(path string, text bool) (check.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return check.File{Path: path}, err
	}
	f := check.File{Path: path, Mode: uint32(info.Mode().Perm()), Size: info.Size(), UID: ownerOf(info)}
	if text && info.Mode().IsRegular() {
		f.Text, err = head(path)
	}
	return f, err
}
