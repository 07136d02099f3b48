package check

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"unisched/slurm"
)

// from is where a setting of our own configuration comes from.
func (r *report) from(key string) string { return r.facts.SiteFrom + ": " + key }

// token judges the token file and what the token says of itself.
func token(r *report) {
	f, path := r.facts, r.facts.Site.Slurm.TokenFile
	if path == "" {
		r.ok("token", "no token is used (slurm.token_file is empty)")
		return
	}
	mint := []string{"systemctl enable --now unisched-token.timer"}
	if file := f.TokenFile; file.ok() && file.V.Mode&0o007 != 0 {
		r.add(Finding{ID: "token-mode", Severity: Error, What: fmt.Sprintf("%s may be read or written by anybody (mode %#o): whoever has it may change everybody's jobs", path, file.V.Mode),
			Fix: "close it", Where: path, Run: []string{"chmod o= " + path}})
	}
	t := f.Token
	switch {
	case !t.Did:
		return
	case errors.Is(t.Err, slurm.ErrOpaque):
		r.add(Finding{ID: "token", Severity: Unseen, What: "how long the token is good cannot be seen: " + t.Err.Error(), Where: path})
		return
	case errors.Is(t.Err, fs.ErrPermission):
		r.add(Finding{ID: "token", Severity: Unseen, What: "the token may not be read by whoever runs this: " + t.Err.Error(), Fix: "run it as root", Where: path})
		return
	case t.Err != nil:
		r.add(Finding{ID: "token", Severity: Error, What: "no token: " + t.Err.Error(), Fix: "mint one; the timer keeps it fresh", Where: path, Run: mint})
		return
	}
	if u := f.Site.Slurm.User; u != "" && t.V.User != "" && t.V.User != u {
		r.add(Finding{ID: "token-user", Severity: Error, What: fmt.Sprintf("the token is for %s, and slurm.user says %s: Slurm refuses that", t.V.User, u), Fix: "mint one for " + u + ", or correct slurm.user",
			Where: path, Run: []string{"scontrol token username=" + u + " lifespan=7200"}})
	}
	left := t.V.Expires.Sub(f.Now)
	switch {
	case t.V.Expires.IsZero():
		r.add(Finding{ID: "token", Severity: Warning, What: "the token never expires", Fix: "let the timer mint short-lived ones", Where: path, Run: mint})
	case left <= 0:
		r.add(Finding{ID: "token", Severity: Error, What: "the token expired " + (-left).Round(time.Second).String() + " ago", Fix: "mint a new one; the timer keeps it fresh", Where: path, Run: mint})
	case left < 15*time.Minute:
		r.add(Finding{ID: "token", Severity: Warning, What: "the token expires in " + left.Round(time.Second).String(), Fix: "the timer should have renewed it: systemctl status unisched-token.timer", Where: path, Run: mint})
	case !t.V.Issued.IsZero() && t.V.Issued.Sub(f.Now) > time.Minute:
		r.add(Finding{ID: "token", Severity: Warning, What: "the token was minted in the future: clocks disagree", Fix: "keep clocks by NTP", Where: path})
	case left > 45*24*time.Hour:
		r.add(Finding{ID: "token", Severity: Note, What: fmt.Sprintf("the token is good for %d days; whoever copies it has as long", int(left.Hours()/24)), Fix: "two hours are enough with the timer", Where: path})
	default:
		r.ok("token", "the token of "+t.V.User+" is good for "+left.Round(time.Minute).String())
	}
}

// stateDir judges the folder of the journal: without it nothing may be done to a job.
func stateDir(r *report) {
	if unseen(r, "state-dir", "the folder of the journal", r.facts.StateDir) {
		return
	}
	d := r.facts.StateDir.V
	before := len(r.findings)
	bad := func(sev Severity, id, what, fix string, run ...string) {
		r.add(Finding{ID: id, Severity: sev, What: what, Fix: fix, Where: r.from("daemon.state_dir"), Have: d.Path, Run: run})
	}
	switch {
	case !d.Exists:
		bad(Warning, "state-dir", d.Path+" does not exist", "the packages make it; else make it for the daemon's user", "install -d -m 0700 -o unisched -g unisched "+d.Path)
		return
	case !d.IsDir:
		bad(Error, "state-dir", d.Path+" is no folder", "move it away")
		return
	}
	if d.Volatile {
		bad(Error, "state-dir-fs", d.Path+" lies on "+d.FS+": after a reboot nobody would know which jobs are held", "put it on a disk")
	}
	if uid := r.facts.DaemonUID; uid.ok() && uid.V != d.UID {
		bad(Error, "state-dir-owner", fmt.Sprintf("%s belongs to uid %d, the daemon runs as uid %d", d.Path, d.UID, uid.V), "give it to the daemon's user", "chown -R unisched:unisched "+d.Path)
	}
	if d.Mode&0o077 != 0 {
		sev, what := Warning, "others may look into the journal"
		if d.Mode&0o022 != 0 {
			sev, what = Error, "others may replace the journal, by which jobs are released"
		}
		bad(sev, "state-dir-mode", fmt.Sprintf("%s has mode %#o: %s", d.Path, d.Mode, what), "close it", "chmod 0700 "+d.Path)
	}
	switch {
	case d.FreeMB < 64 || d.FreeFile >= 0 && d.FreeFile < 16:
		bad(Error, "state-dir-space", fmt.Sprintf("%d MB and %d files are free in %s: without a journal nothing is done", d.FreeMB, d.FreeFile, d.Path), "make room")
	case d.FreeMB < 1024:
		bad(Warning, "state-dir-space", fmt.Sprintf("%d MB are free in %s", d.FreeMB, d.Path), "make room: 1 GB is plenty")
	}
	if len(r.findings) == before {
		r.ok("state-dir", fmt.Sprintf("%s on %s, %d MB free", d.Path, d.FS, d.FreeMB))
	}
}

// solver judges whether the solver solves.
func solver(r *report) {
	switch s := r.facts.Solver; {
	case !s.Did:
	case s.Err != nil:
		r.add(Finding{ID: "solver", Severity: Error, What: "the solver does not work: " + s.Err.Error() + "; plans would be greedy ones", Fix: "use the packaged binaries; look at limits on memory and processes, and at a noexec /tmp"})
	default:
		r.ok("solver", "the solver solves (a tiny model in "+s.V.Round(time.Millisecond).String()+")")
	}
}

// secrets judges the key that signs the reports of the nodes.
func secrets(r *report) {
	d := r.facts.Site.Daemon
	if d.Listen == "" {
		r.add(Finding{ID: "listen", Severity: Warning, What: "daemon.listen is empty: no progress arrives from the nodes, and a job without a sign of life is never preempted",
			Fix: "set daemon.listen, and run unisched-node watch on the nodes", Where: r.from("daemon.listen")})
		return
	}
	switch k := r.facts.NodeKey; {
	case !k.Did:
	case k.Err != nil:
		r.add(Finding{ID: "node-key", Severity: Error, What: "the key of the nodes cannot be read: " + k.Err.Error(), Fix: "make one, the same on every node", Where: r.from("daemon.node_key_file"),
			Run: []string{"(umask 077; head -c 32 /dev/urandom | base64 > " + d.NodeKeyFile + ")"}})
	case k.V.Mode&0o007 != 0:
		r.add(Finding{ID: "node-key", Severity: Error, What: fmt.Sprintf("%s may be read by anybody (mode %#o): anybody could report progress", k.V.Path, k.V.Mode), Fix: "close it", Run: []string{"chmod o= " + k.V.Path}})
	case k.V.Size < 32:
		r.add(Finding{ID: "node-key", Severity: Error, What: k.V.Path + " is shorter than 32 bytes", Fix: "make a longer one, the same on every node", Run: []string{"(umask 077; head -c 32 /dev/urandom | base64 > " + k.V.Path + ")"}})
	default:
		r.ok("node-key", "node reports are taken at "+d.Listen+" and signed")
	}
}

// scontrolWorks judges the fallback for what REST cannot do.
func scontrolWorks(r *report) {
	s := r.facts.Scontrol
	switch {
	case !s.Did:
	case s.Err != nil && len(r.facts.Site.Slurm.Scontrol) == 0:
		r.add(Finding{ID: "scontrol", Severity: Note, What: "slurm.scontrol is empty: a node list cannot be taken off a waiting job, only replaced", Fix: "set it where slurm-client can be installed"})
	case s.Err != nil:
		r.add(Finding{ID: "scontrol", Severity: Warning, What: "scontrol does not work: " + s.Err.Error() + "; a node list cannot be taken off a waiting job, only replaced",
			Fix: "install slurm-client with munge or sackd here, or correct slurm.scontrol", Where: r.from("slurm.scontrol"), Have: strings.Join(r.facts.Site.Slurm.Scontrol, " ")})
	default:
		r.ok("scontrol", "scontrol works ("+s.V+")")
	}
}

// daemon says how the daemon fares; that it does not run is no fault of the site.
func daemon(r *report) {
	switch d := r.facts.Daemon; {
	case !d.Did:
	case d.Err != nil:
		r.add(Finding{ID: "daemon", Severity: Note, What: "the daemon does not answer: " + d.Err.Error(), Fix: "start it when the findings above are mended", Run: []string{"systemctl enable --now unischedd"}})
	case d.V.Standby != "":
		r.add(Finding{ID: "daemon", Severity: Note, What: "the daemon of this host is " + d.V.Standby})
	case d.V.Trouble != "":
		r.add(Finding{ID: "daemon", Severity: Error, What: "the daemon cannot see Slurm: " + d.V.Trouble, Fix: "see the findings about slurmrestd and the token"})
	case d.V.Suspect != "":
		r.add(Finding{ID: "daemon", Severity: Warning, What: "the daemon does nothing disruptive now: " + d.V.Suspect})
	default:
		r.ok("daemon", "the daemon runs, stage "+string(d.V.Stage))
	}
}

// watchers compares the programs on the nodes with this one.
func watchers(r *report) {
	if !r.facts.Watchers.ok() {
		return
	}
	all := r.facts.Watchers.V
	var other, unknown, off []string
	for _, w := range all {
		switch {
		case w.Version == "":
			unknown = append(unknown, w.Node)
		case w.Version != r.facts.Version:
			other = append(other, w.Node+" "+w.Version)
		}
		if w.Ahead.Abs() > 5*time.Second {
			off = append(off, fmt.Sprintf("%s (%s)", w.Node, w.Ahead.Round(time.Second)))
		}
	}
	slices.Sort(other)
	if len(other) > 0 {
		r.add(Finding{ID: "node-version", Severity: Warning, What: fmt.Sprintf("unisched-node differs from %s on %s", r.facts.Version, few(other)), Fix: "upgrade the package unisched-node there"})
	}
	if len(unknown) > 0 {
		r.add(Finding{ID: "node-version", Severity: Warning, What: "unisched-node is too old to say its version on " + few(unknown), Fix: "upgrade the package unisched-node there"})
	}
	if len(off) > 0 {
		r.add(Finding{ID: "node-clock", Severity: Warning, What: "clocks differ from ours on " + few(off), Fix: "keep them by NTP: beyond a minute their reports are refused"})
	}
	switch {
	case len(all) == 0 && r.facts.Slurmds.ok():
		r.add(Finding{ID: "node-version", Severity: Warning, What: "no node has reported since the daemon started: jobs give no sign of life, and none is preempted", Fix: "run unisched-node watch on the nodes", Run: []string{"systemctl enable --now unisched-node"}})
	case len(other)+len(unknown)+len(off) == 0:
		r.ok("node-version", fmt.Sprintf("%d watchers report, version %s", len(all), r.facts.Version))
	}
}

// hooks looks for our hooks in slurm.conf. A site's own script that calls ours counts when it can be read here.
func hooks(r *report) {
	if !r.facts.Config.ok() {
		return
	}
	c := r.facts.Config.V
	for _, h := range []struct {
		key, id, sub, without string
		sev                   Severity
	}{
		{"Prolog", "prolog", "prolog", "jobs have no folder for their progress file", Warning},
		{"TaskProlog", "taskprolog", "taskprolog", "jobs are not told where to write progress, and a job without a sign of life is never preempted", Warning},
		{"Epilog", "epilog", "epilog", "progress folders stay for 30 days", Note},
	} {
		paths := c.List(h.key)
		ours, unknown := false, false
		for _, p := range paths {
			s, seen := r.facts.Scripts[p]
			ours = ours || strings.Contains(p, "unisched") || seen && strings.Contains(s.Text, "unisched")
			unknown = unknown || !seen
			if seen && s.Mode&0o111 == 0 {
				r.add(Finding{ID: h.id, Severity: Error, What: p + " is not executable: Slurm drains the node at the first job", Fix: "make it so", Run: []string{"chmod 0755 " + p}})
			}
		}
		if ours {
			r.ok(h.id, setting(h.key, c.Text(h.key)))
			continue
		}
		f := Finding{ID: h.id, Severity: h.sev, What: h.without, Fix: "run unisched-node " + h.sub + " as " + h.key}
		f.Where, f.Have = r.line(h.key)
		switch {
		case len(paths) == 0:
			f.Want = []string{h.key + "=" + filepath.Join(HookDir, h.sub)}
		case unknown:
			f.Severity, f.What = Unseen, h.key+" is a script that is not on this host: whether it calls unisched-node is not known; if not, "+h.without
			f.Fix = "let it call unisched-node " + h.sub
		default:
			f.Fix = "let " + paths[0] + " call unisched-node " + h.sub
		}
		r.add(f)
	}
	if len(c.List("Prolog")) > 0 && !c.Has("PrologFlags", "Alloc") && !c.Has("PrologFlags", "Contain") && !c.Has("PrologFlags", "X11") {
		f := Finding{ID: "prolog-flags", Severity: Note, What: "the prolog runs only where a step starts: on other nodes of a job there is no folder", Fix: "run it at the allocation",
			Want: []string{"PrologFlags=" + appended(c.List("PrologFlags"), "Alloc")}}
		f.Where, f.Have = r.line("PrologFlags")
		r.add(f)
	}
}

// HookDir is where the package unisched-node puts the hooks.
const HookDir = "/usr/lib/unisched"
