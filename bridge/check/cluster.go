package check

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"unisched/slurm"
	"unisched/slurm/gres"
	"unisched/slurm/hostlist"
)

// leastRelease is the oldest Slurm that is supported.
const leastRelease = "24.11"

// site judges the configuration file as a whole.
func site(r *report) {
	f := r.facts
	if f.SiteErr == nil {
		r.ok("config", "configuration "+f.SiteFrom+" is valid")
		return
	}
	for line := range strings.Lines(f.SiteErr.Error()) {
		r.add(Finding{ID: "config", Severity: Error, What: strings.TrimSpace(line), Fix: "unisched config validate names every fault", Where: f.SiteFrom})
	}
}

// restd judges slurmrestd: whether it answers for a controller, what it speaks, and how old the Slurm behind it is.
func restd(r *report) {
	f := r.facts
	url := f.Site.Slurm.URL
	switch s := f.Surface; {
	case errors.Is(s.Err, ErrNotAsked):
		r.add(Finding{ID: "slurmrestd", Severity: Unseen, What: "slurmrestd at " + url + ": not asked without a token"})
	case s.Did && s.Err != nil && errors.Is(s.Err, slurm.ErrUnauthorised):
		r.add(Finding{ID: "slurmrestd", Severity: Error, What: "slurmrestd at " + url + " refuses us: " + s.Err.Error(), Fix: "see the findings about the token", Where: r.from("slurm.url")})
	case s.Did && s.Err != nil:
		r.add(Finding{ID: "slurmrestd", Severity: Error, What: "slurmrestd at " + url + " does not answer: " + s.Err.Error(),
			Fix: "start slurmrestd, or correct slurm.url", Where: r.from("slurm.url")})
	case s.ok():
		best := ""
		for _, v := range slurm.Versions {
			if best == "" && slices.Contains(s.V.Versions, v) {
				best = v
			}
		}
		served := strings.Join(s.V.Versions, ", ")
		if best == "" {
			r.add(Finding{ID: "api", Severity: Error, What: "slurmrestd serves " + served + "; UniSched speaks " + slurm.Versions[len(slurm.Versions)-1] + " to " + slurm.Versions[0],
				Fix: "run Slurm " + leastRelease + " or newer; -s openapi/slurmctld,openapi/slurmdbd if plugins are chosen by hand"})
		} else {
			r.ok("api", "slurmrestd serves "+served+"; "+best+" is used")
		}
		if !s.V.Requeue && f.Scontrol.Did && f.Scontrol.Err != nil {
			r.add(Finding{ID: "requeue-way", Severity: Warning, What: "jobs that end with another exit code cannot be put back: slurmrestd has no /jobs/requeue (it came with 26.05) and scontrol does not work here",
				Fix: "install slurm-client here, or set slurm.scontrol", Where: r.from("slurm.scontrol")})
		}
	}
	switch p := f.Pong; {
	case f.Surface.Did && f.Surface.Err != nil: // said already
	case p.Did && p.Err != nil && errors.Is(p.Err, slurm.ErrUnauthorised):
		r.add(Finding{ID: "auth", Severity: Error, What: "slurmrestd does not accept the token: " + p.Err.Error(), Fix: "systemctl start unisched-token mints a new one; slurm.user must be the token's user"})
	case p.Did && p.Err != nil:
		r.add(Finding{ID: "slurmctld", Severity: Error, What: "slurmctld does not answer slurmrestd: " + p.Err.Error(), Fix: "start slurmctld; look at slurmrestd's log"})
	case p.ok() && olderThan(p.V.Release, leastRelease):
		r.add(Finding{ID: "release", Severity: Error, What: "Slurm " + p.V.Release + " is too old: its REST interface cannot set what a plan needs", Fix: "run Slurm " + leastRelease + " or newer"})
	case p.ok():
		r.ok("release", "Slurm "+p.V.Release+", cluster "+p.V.Cluster)
	}
}

// olderThan compares releases such as "24.11.5" by their first two numbers; what is no release is not older.
func olderThan(release, than string) bool {
	a, okA := releaseNumber(release)
	b, okB := releaseNumber(than)
	return okA && okB && a < b
}

func releaseNumber(release string) (int, bool) {
	part := strings.SplitN(release, ".", 3)
	if len(part) < 2 {
		return 0, false
	}
	year, err := strconv.Atoi(part[0])
	month, err2 := strconv.Atoi(part[1])
	return year*100 + month, err == nil && err2 == nil
}

// rights judges what our user may do.
func rights(r *report) {
	f := r.facts
	user := f.Token.V.User
	if user == "" {
		user = f.Site.Slurm.User
	}
	if f.Config.ok() && (user == "root" || user == f.Config.V.Text("SlurmUser") || strings.HasPrefix(f.Config.V.Text("SlurmUser"), user+"(")) {
		r.add(Finding{ID: "rights", Severity: Warning, What: "UniSched acts as " + user + ", who may do anything to Slurm", Fix: "an operator is enough",
			Run: []string{"sacctmgr -i add user unisched account=root adminlevel=operator"}})
		return
	}
	switch s := f.Rights; {
	case s.Did && s.Err != nil && f.Pong.ok():
		r.add(Finding{ID: "rights", Severity: Error, What: "accounting does not say what " + user + " may do: " + s.Err.Error(), Fix: "start slurmdbd; slurmrestd needs -s openapi/slurmdbd if plugins are chosen by hand"})
	case unseen(r, "rights", "the rights of "+user, s):
	case !s.V.Known:
		r.add(Finding{ID: "rights", Severity: Error, What: "accounting knows no user " + user + ": it may not touch other people's jobs", Fix: "add it as an operator",
			Run: []string{"sacctmgr -i add user " + user + " account=root adminlevel=operator"}})
	case !operator(s.V.Level):
		r.add(Finding{ID: "rights", Severity: Error, What: user + " has AdminLevel=" + s.V.Level + ": it may not touch other people's jobs", Fix: "make it an operator", Run: operatorCommand(f)})
	case s.V.Level == "Administrator":
		r.add(Finding{ID: "rights", Severity: Note, What: user + " is an Administrator; Operator is enough", Fix: "take the rest away", Run: operatorCommand(f)})
	default:
		r.ok("rights", user+" has AdminLevel="+s.V.Level)
	}
}

func operator(level string) bool { return level == "Operator" || level == "Administrator" }

func operatorCommand(f Facts) []string {
	user := f.Token.V.User
	if user == "" {
		user = f.Site.Slurm.User
	}
	return []string{"sacctmgr -i modify user " + user + " set adminlevel=operator"}
}

// clock judges how far the controller's clock is from ours.
func clock(r *report) {
	if unseen(r, "clock", "the controller's clock", r.facts.Skew) {
		return
	}
	s := r.facts.Skew.V
	off := max(s.Ahead.Abs()-s.Err, 0)
	way := "ahead of"
	if s.Ahead < 0 {
		way = "behind"
	}
	f := Finding{ID: "clock", What: fmt.Sprintf("the controller's clock is %s %s ours", s.Ahead.Abs().Round(time.Second), way), Fix: "keep both by NTP (chrony, systemd-timesyncd)"}
	switch {
	case off > min(r.facts.Site.Bridge.Delay/2, time.Minute):
		f.Severity, f.What = Error, f.What+": delays of waiting jobs end too early or too late"
	case off > 5*time.Second:
		f.Severity = Warning
	default:
		r.ok("clock", "the controller's clock agrees with ours")
		return
	}
	r.add(f)
}

// partitions judges the managed partitions and the one for profiles.
func partitions(r *report) {
	if unseen(r, "partitions", "partitions", r.facts.Partitions) {
		return
	}
	all := map[string]slurm.Partition{}
	for _, p := range r.facts.Partitions.V {
		all[p.Name] = p
	}
	var nodes []string
	for _, name := range r.facts.Site.Bridge.Partitions {
		p, ok := all[name]
		if !ok {
			r.add(Finding{ID: "partition", Severity: Error, What: "there is no partition " + name + ": no job is managed there", Fix: "correct bridge.partitions", Where: r.from("bridge.partitions"),
				Have: "bridge.partitions names " + name})
			continue
		}
		if !p.Up {
			r.add(Finding{ID: "partition", Severity: Warning, What: "partition " + name + " is not up", Fix: "scontrol update PartitionName=" + name + " State=UP"})
			continue
		}
		nodes = append(nodes, p.Nodes...)
		r.ok("partition", fmt.Sprintf("partition %s is up, %d nodes", name, len(p.Nodes)))
	}
	if name := r.facts.Site.Bridge.ProfilePartition; name == "" {
		r.add(Finding{ID: "profile", Severity: Note, What: "bridge.profile_partition is empty: new jobs are planned without having been measured", Fix: "see docs/admin.md"})
	} else if p, ok := all[name]; !ok {
		r.add(Finding{ID: "profile", Severity: Error, What: "there is no partition " + name + ": new jobs cannot be measured", Fix: "add it on the nodes of " + strings.Join(r.facts.Site.Bridge.Partitions, ", ") + ", or set bridge.profile_partition = \"\"",
			Where: r.from("bridge.profile_partition"), Want: []string{profileLine(name)}, Run: profileQOS})
	} else {
		profile(r, p, nodes)
	}
}

var profileQOS = []string{"sacctmgr -i add qos profile set maxtresperjob=gres/gpu=2"}

func profileLine(name string) string {
	return "PartitionName=" + name + " Nodes=ALL MaxNodes=2 MaxTime=00:30:00 QOS=profile State=UP"
}

// profile judges the partition for profiles, which spans the managed nodes and lets a job have two GPUs on two nodes for the time of a
// profile. Its findings share one line, which mends all of them.
func profile(r *report, p slurm.Partition, nodes []string) {
	before := len(r.findings)
	where, have := r.partitionLine(p.Name)
	line := have
	if line == "" {
		line = profileLine(p.Name)
	}
	bad := func(sev Severity, id, what, key, value string) {
		line = patched(line, key, value)
		r.add(Finding{ID: id, Severity: sev, What: what, Fix: key + "=" + value, Where: where, Have: have, Want: []string{""}})
	}
	if !p.Up {
		bad(Error, "profile", "partition "+p.Name+" is not up: new jobs cannot be measured", "State", "UP")
	}
	var missing []string
	for _, n := range nodes {
		if !slices.Contains(p.Nodes, n) && !slices.Contains(missing, n) {
			missing = append(missing, n)
		}
	}
	if len(missing) > 0 {
		bad(Error, "profile-nodes", fmt.Sprintf("partition %s lacks %d managed nodes (%s): profiles planned there cannot start", p.Name, len(missing), few(missing)),
			"Nodes", hostlist.Compress(slices.Concat(p.Nodes, missing)))
	}
	if p.MaxNodes == 1 {
		bad(Error, "profile-max-nodes", "partition "+p.Name+" allows one node a job: two GPUs of two nodes cannot be measured", "MaxNodes", "2")
	} else if p.MaxNodes == 0 || p.MaxNodes > 2 {
		bad(Warning, "profile-max-nodes", "partition "+p.Name+" lets a job have more than 2 nodes: users can run there what should wait", "MaxNodes", "2")
	}
	if need := r.facts.Site.Bridge.ProfileTime; p.MaxTime > 0 && p.MaxTime < need {
		minutes := int((2*need + time.Minute - 1) / time.Minute)
		bad(Error, "profile-time", fmt.Sprintf("partition %s ends jobs after %s, a profile takes %s (bridge.profile_time)", p.Name, p.MaxTime, need), "MaxTime", strconv.Itoa(minutes))
	}
	r.profileCap(p, bad)
	for i := before; i < len(r.findings); i++ {
		if f := &r.findings[i]; len(f.Want) > 0 {
			f.Want[0] = line
		}
	}
	if len(r.findings) == before {
		r.ok("profile", fmt.Sprintf("partition %s: %d nodes, its QOS %s caps a job at 2 GPUs", p.Name, len(p.Nodes), p.QOS))
	}
}

// patched is a line of slurm.conf with one of its key=value words set.
func patched(line, key, value string) string {
	words := strings.Fields(line)
	for i, w := range words {
		if k, _, ok := strings.Cut(w, "="); ok && strings.EqualFold(k, key) {
			words[i] = key + "=" + value
			return strings.Join(words, " ")
		}
	}
	return strings.Join(append(words, key+"="+value), " ")
}

// profileCap judges the QOS of the partition for profiles.
func (r *report) profileCap(p slurm.Partition, bad func(sev Severity, id, what, key, value string)) {
	q := r.facts.QOS
	set := []string{"sacctmgr -i modify qos " + p.QOS + " set maxtresperjob=gres/gpu=2"}
	switch {
	case p.QOS == "":
		bad(Warning, "profile-qos", "partition "+p.Name+" has no QOS that caps a job at 2 GPUs", "QOS", "profile")
		r.findings[len(r.findings)-1].Run = profileQOS
	case unseen(r, "profile-qos", "the QOS "+p.QOS, q):
	case !q.V.Known:
		r.add(Finding{ID: "profile-qos", Severity: Error, What: "accounting knows no QOS " + p.QOS + ", which partition " + p.Name + " names", Fix: "add it",
			Run: []string{"sacctmgr -i add qos " + p.QOS + " set maxtresperjob=gres/gpu=2"}})
	case q.V.GPUsPerJob < 0 || q.V.GPUsPerJob > 2:
		what := "QOS " + p.QOS + " does not cap a job at 2 GPUs"
		if typed := r.typedCaps("QOS "+p.QOS, "MaxTRESPerJob"); len(typed) > 0 {
			what += " (" + capTexts(typed) + " binds only jobs that name the type)"
		}
		r.add(Finding{ID: "profile-qos", Severity: Warning, What: what + ": users can run there what should wait", Fix: "cap it", Run: set})
	case q.V.GPUsPerJob < 2:
		r.add(Finding{ID: "profile-qos", Severity: Error, What: fmt.Sprintf("QOS %s caps a job at %d GPUs: two cannot be measured", p.QOS, q.V.GPUsPerJob), Fix: "raise the cap", Run: set})
	}
	for _, c := range r.typedCaps("QOS "+p.QOS, "MaxTRESPerJob") {
		if c.Count < 2 {
			r.add(Finding{ID: "profile-qos", Severity: Error, What: fmt.Sprintf("QOS %s caps a job at %d GPUs of type %s: two cannot be measured of a job that names it", p.QOS, c.Count, c.Type), Fix: "raise the cap",
				Run: []string{"sacctmgr -i modify qos " + p.QOS + " set maxtresperjob=gres/gpu:" + c.Type + "=2"}})
		}
	}
}

// caps tells of limits on GPUs of one type, which are easily taken for limits on GPUs.
func caps(r *report) {
	if unseen(r, "typed-cap", "limits of accounting on GPUs", r.facts.Caps) {
		return
	}
	typed := r.typedCaps("", "")
	if len(typed) == 0 {
		r.ok("typed-cap", "no limit is on GPUs of one type only")
		return
	}
	r.add(Finding{ID: "typed-cap", Severity: Note, What: "limits on GPUs of one type bind only jobs that name the type (--gpus=TYPE:N), those of --gpus=N go past them: " + capTexts(typed) +
		". UniSched learns of such a limit when Slurm holds a job back for it", Fix: "limit gres/gpu where all GPUs are meant"})
}

// typedCaps are the limits on GPUs of one type, of one owner and kind where those are named.
func (r *report) typedCaps(of, limit string) (out []slurm.GPUCap) {
	for _, c := range r.facts.Caps.V {
		if c.Type != "" && (of == "" || c.Of == of) && (limit == "" || c.Limit == limit) {
			out = append(out, c)
		}
	}
	return out
}

// capTexts names the first of many limits.
func capTexts(list []slurm.GPUCap) string {
	var out []string
	for _, c := range list {
		out = append(out, fmt.Sprintf("%s of %s, gres/gpu:%s=%d", c.Limit, c.Of, c.Type, c.Count))
	}
	return few(out)
}

// partitionLine is the PartitionName line of a partition, as far as the file is on this host.
func (r *report) partitionLine(name string) (where, have string) {
	if l, ok := r.facts.Lines["partitionname="+strings.ToLower(name)]; ok {
		return fmt.Sprintf("%s:%d", l.File, l.N), l.Text
	}
	return "scontrol show partition " + name, ""
}

// slurmds judges the daemons of the nodes and their GPUs.
func slurmds(r *report) {
	if unseen(r, "nodes", "nodes", r.facts.Slurmds) {
		return
	}
	var old, uncounted []string
	gpus := 0
	for _, n := range r.facts.Slurmds.V {
		if olderThan(n.Version, leastRelease) {
			old = append(old, n.Node+" "+n.Version)
		}
		if !strings.Contains(n.GRES, "gpu") {
			continue
		}
		gpus++
		if strings.Contains(n.Used, "(CNT:") { // in use, and Slurm cannot say which ones
			uncounted = append(uncounted, n.Node)
		}
	}
	if len(old) > 0 {
		r.add(Finding{ID: "slurmd", Severity: Warning, What: "slurmd is older than " + leastRelease + " on " + few(old), Fix: "upgrade these nodes"})
	}
	if len(uncounted) > 0 {
		r.add(Finding{ID: "gres", Severity: Error, What: "Slurm cannot tell which GPUs of " + few(uncounted) + " are in use: jobs share GPUs by accident", Fix: "name the devices in gres.conf",
			Have: "Name=gpu without File=", Want: nil, Run: []string{"gres.conf: AutoDetect=nvml, or Name=gpu File=/dev/nvidia[0-3]"}})
	}
	if gpus == 0 {
		r.add(Finding{ID: "gres", Severity: Error, What: "no node has GPUs", Fix: "NodeName lines of slurm.conf need Gres=gpu:N, and gres.conf the devices", Run: []string{"scontrol show node | grep -i gres"}})
	}
	mixed(r)
	gresConf(r)
	if len(old)+len(uncounted) == 0 && gpus > 0 {
		r.ok("nodes", fmt.Sprintf("%d nodes, %d with GPUs", len(r.facts.Slurmds.V), gpus))
	}
}

// mixed tells of nodes with GPUs of several types: which of them are free no node says, so a job that names one of them is planned on others only, and left to Slurm where there are none.
func mixed(r *report) {
	var nodes []string
	on, pure := map[string]bool{}, map[string]bool{}
	for _, n := range r.facts.Slurmds.V {
		var types []string
		entries, err := gres.Parse(n.GRES)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if e.GPU() && e.Type != "" && !slices.Contains(types, e.Type) {
				types = append(types, e.Type)
			}
		}
		for _, t := range types {
			on[t] = true
			pure[t] = pure[t] || len(types) == 1
		}
		if len(types) > 1 {
			nodes = append(nodes, n.Node)
		}
	}
	if len(nodes) == 0 {
		return
	}
	what := "GPUs of several types on " + few(nodes) + ": a job that names a type (--gpus=TYPE:N) is not planned there"
	var only []string
	for t := range on {
		if !pure[t] {
			only = append(only, t)
		}
	}
	slices.Sort(only)
	if len(only) > 0 {
		what += "; one that names " + few(only) + ", which no other node has, is left to Slurm (unmanaged)"
	}
	r.add(Finding{ID: "gpu-types", Severity: Note, What: what, Fix: "let such jobs ask for GPUs without a type, or tell nodes apart by a feature (--constraint)"})
}

// gresConf looks for GPUs without a device in gres.conf, where it is on this host.
func gresConf(r *report) {
	if !r.facts.GresConf.ok() {
		return
	}
	text := strings.ToLower(r.facts.GresConf.V)
	if detect, found := strings.CutPrefix(text, "autodetect="); found && !strings.HasPrefix(detect, "off") {
		return
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "autodetect=") && !strings.HasPrefix(line, "autodetect=off") {
			return
		}
		if strings.HasPrefix(line, "#") || !strings.Contains(line, "name=gpu") || strings.Contains(line, "file=") || strings.Contains(line, "autodetect=") {
			continue
		}
		r.add(Finding{ID: "gres", Severity: Error, What: "gres.conf counts GPUs without naming their devices: Slurm cannot say which ones a job holds", Fix: "add File=/dev/nvidia[...] or AutoDetect=nvml",
			Where: fmt.Sprintf("gres.conf:%d", n), Have: line})
	}
}

// few names the first of many.
func few(names []string) string {
	if len(names) <= 4 {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:4], ", ") + fmt.Sprintf(" and %d more", len(names)-4)
}
