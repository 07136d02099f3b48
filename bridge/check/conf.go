package check

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"unisched/slurm"
)

// verdict is what a rule thinks of one setting; the zero value is content.
type verdict struct {
	sev       Severity
	what, fix string
	want      string // the value as it should be; "" when the fix is elsewhere
	run       []string
}

// confRule judges one key of slurm.conf.
type confRule struct {
	id, key string
	judge   func(f Facts, c slurm.Config) verdict
}

var confRules = []confRule{
	{"job-requeue", "JobRequeue", func(_ Facts, c slurm.Config) verdict {
		if n, ok := c.Number("JobRequeue"); ok && n == 0 {
			return verdict{Error, "jobs are not requeued: each preemption would end a job", "let jobs return to the queue", "1", nil}
		}
		return verdict{}
	}},
	{"requeue-exit", "RequeueExit", requeueExit},
	{"requeue-exit-hold", "RequeueExitHold", func(f Facts, c slurm.Config) verdict {
		code := f.Site.Bridge.RequeueExit
		if !inCodes(c.List("RequeueExitHold"), code) {
			return verdict{}
		}
		v := verdict{Error, fmt.Sprintf("exit code %d comes back as a job that is held for good", code), "take it out of RequeueExitHold", "", nil}
		if rest := without(c.List("RequeueExitHold"), strconv.Itoa(code)); !inCodes(rest, code) {
			v.want = strings.Join(rest, ",")
		}
		return v
	}},
	{"cred-expire", "AuthInfo", credExpire},
	{"jwt", "AuthAltTypes", func(f Facts, c slurm.Config) verdict {
		if f.Site.Slurm.TokenFile == "" || c.Has("AuthAltTypes", "auth/jwt") {
			return verdict{}
		}
		return verdict{Error, "Slurm takes no tokens, and slurm.token_file names one", "switch JWT on", appended(c.List("AuthAltTypes"), "auth/jwt"), nil}
	}},
	{"jwt-key", "AuthAltParameters", jwtKey},
	{"gpu-tres", "AccountingStorageTRES", func(_ Facts, c slurm.Config) verdict {
		if c.Has("AccountingStorageTRES", "gres/gpu") {
			return verdict{}
		}
		return verdict{Error, "Slurm does not count GPUs: what a job asks for and holds cannot be seen", "count GPUs; needs a restart of slurmctld",
			appended(withoutStatic(c.List("AccountingStorageTRES")), "gres/gpu"), nil}
	}},
	{"accounting", "AccountingStorageType", func(f Facts, c slurm.Config) verdict {
		if c.Text("AccountingStorageType") == "accounting_storage/slurmdbd" {
			return verdict{}
		}
		return verdict{Warning, "there is no slurmdbd: admin levels do not exist, and only SlurmUser and root may change other people's jobs",
			"run slurmdbd, or give UniSched a token of SlurmUser", "accounting_storage/slurmdbd", nil}
	}},
	{"enforce", "AccountingStorageEnforce", func(f Facts, c slurm.Config) verdict {
		if f.Site.Bridge.ProfilePartition == "" || c.Has("AccountingStorageEnforce", "limits") || c.Has("AccountingStorageEnforce", "all") ||
			c.Has("AccountingStorageEnforce", "safe") {
			return verdict{}
		}
		return verdict{Note, "limits of a QOS are not enforced, so that of the profile partition is not either", "enforce limits if users may submit there",
			appended(c.List("AccountingStorageEnforce"), "limits", "qos"), nil}
	}},
	{"gres-types", "GresTypes", func(_ Facts, c slurm.Config) verdict {
		if c.Has("GresTypes", "gpu") {
			return verdict{}
		}
		return verdict{Error, "Slurm knows no GPUs", "declare the resource; gres.conf and NodeName lines say where they are", appended(c.List("GresTypes"), "gpu"), nil}
	}},
	{"select-type", "SelectType", func(_ Facts, c slurm.Config) verdict {
		if t := c.Text("SelectType"); t == "" || t == "select/cons_tres" { // not said: the default
			return verdict{}
		}
		return verdict{Error, "GPUs are no consumable resource", "use the selector that counts them; needs a restart with all jobs ended", "select/cons_tres", nil}
	}},
	{"scheduler", "SchedulerType", func(_ Facts, c slurm.Config) verdict {
		if t := c.Text("SchedulerType"); t == "" || t == "sched/backfill" { // not said: the default
			return verdict{}
		}
		return verdict{Warning, "without backfill one waiting plain job holds up every job that is released behind it", "use backfill; needs a restart of slurmctld",
			"sched/backfill", nil}
	}},
	{"priority", "PriorityType", func(f Facts, c slurm.Config) verdict {
		if t := c.Text("PriorityType"); f.Site.Bridge.PriorityMode != "nice" || t == "" || t == "priority/multifactor" {
			return verdict{}
		}
		return verdict{Warning, "nice has no effect, so Slurm's order is not the plan's", "use multifactor priorities (or bridge.priority_mode = \"off\"); needs a restart",
			"priority/multifactor", nil}
	}},
	{"min-job-age", "MinJobAge", minJobAge},
	{"max-job-count", "MaxJobCount", maxJobCount},
	{"kill-wait", "KillWait", killWait},
	{"scheduler-parameters", "SchedulerParameters", schedulerParameters},
	{"preempt", "PreemptType", func(_ Facts, c slurm.Config) verdict {
		if t := c.Text("PreemptType"); t != "" && t != "preempt/none" {
			return verdict{Warning, "Slurm preempts on its own: its victims get no checkpoint signal from UniSched", "keep Slurm's preemption away from the managed partitions", "", nil}
		}
		return verdict{}
	}},
	{"private-data", "PrivateData", func(f Facts, c slurm.Config) verdict {
		level := f.Rights.V.Level
		for _, what := range []string{"jobs", "nodes", "partitions", "reservations", "all"} {
			if c.Has("PrivateData", what) && !operator(level) && f.Token.V.User != c.Text("SlurmUser") {
				return verdict{Error, "other people's " + what + " are hidden from UniSched", "make its user an operator", "", operatorCommand(f)}
			}
		}
		return verdict{}
	}},
	{"slurmd-timeout", "SlurmdTimeout", func(_ Facts, c slurm.Config) verdict {
		switch n, ok := c.Number("SlurmdTimeout"); {
		case ok && n == 0:
			return verdict{Warning, "dead nodes are never marked down: their jobs hold their GPUs for ever", "give slurmd a time to answer", "300", nil}
		case ok && n > 1800:
			return verdict{Note, fmt.Sprintf("a dead node keeps its jobs for %s", time.Duration(n)*time.Second), "300 s is usual", "300", nil}
		}
		return verdict{}
	}},
	{"job-submit", "JobSubmitPlugins", jobSubmit},
	{"rate-limit", "SlurmctldParameters", func(_ Facts, c slurm.Config) verdict {
		if c.Has("SlurmctldParameters", "rl_enable") {
			return verdict{Note, "Slurm limits calls per user: UniSched slows down when it is told to", "raise rl_bucket_size and rl_refill_rate if `unisched status` shows refusals", "", nil}
		}
		return verdict{}
	}},
}

// slurmConf applies the rules, each with the line that it is about.
func slurmConf(r *report) {
	if unseen(r, "slurm-conf", "slurm.conf could not be read", r.facts.Config) {
		return
	}
	c := r.facts.Config.V
	for _, rule := range confRules {
		v := rule.judge(r.facts, c)
		if v.sev == "" {
			r.ok(rule.id, setting(rule.key, c.Text(rule.key)))
			continue
		}
		f := Finding{ID: rule.id, Severity: v.sev, What: v.what, Fix: v.fix, Run: v.run}
		f.Where, f.Have = r.line(rule.key)
		if v.want != "" {
			f.Want = []string{rule.key + "=" + v.want}
		}
		r.add(f)
	}
}

// line is where a key stands: the file when it lies on this host and has it, else where the configuration came from.
func (r *report) line(key string) (where, have string) {
	if l, ok := r.facts.Lines[strings.ToLower(key)]; ok {
		return fmt.Sprintf("%s:%d", l.File, l.N), l.Text
	}
	return r.facts.Config.V.Source, setting(key, r.facts.Config.V.Text(key))
}

func setting(key, value string) string {
	if value == "" {
		return key + " is not set"
	}
	return key + "=" + value
}

func requeueExit(f Facts, c slurm.Config) verdict {
	code := f.Site.Bridge.RequeueExit
	if inCodes(c.List("RequeueExit"), code) {
		return verdict{}
	}
	v := verdict{Error, fmt.Sprintf("exit code %d does not send a job back to the queue: each preemption would end a job", code),
		"name the code (bridge.requeue_exit)", appended(c.List("RequeueExit"), strconv.Itoa(code)), nil}
	if f.Surface.V.Requeue || f.Scontrol.ok() {
		v.sev = Warning
		v.what = fmt.Sprintf("exit code %d does not send a job back to the queue: jobs that save and exit with it fail, and are put back only afterwards", code)
	}
	return v
}

// inCodes says whether a list of codes and ranges ("1-5", "99") holds a code.
func inCodes(list []string, code int) bool {
	for _, item := range list {
		lo, hi, found := strings.Cut(item, "-")
		a, err := strconv.Atoi(lo)
		b := a
		if found && err == nil {
			b, err = strconv.Atoi(hi)
		}
		if err == nil && a <= code && code <= b {
			return true
		}
	}
	return false
}

func credExpire(_ Facts, c slurm.Config) verdict {
	seconds := int64(120)
	for _, p := range c.List("AuthInfo") {
		if n, err := strconv.ParseInt(strings.TrimPrefix(p, "cred_expire="), 10, 64); err == nil && strings.HasPrefix(p, "cred_expire=") {
			seconds = n
		}
	}
	if seconds <= 10 {
		return verdict{}
	}
	return verdict{Note, fmt.Sprintf("Slurm lets a requeued job rest for %d s; UniSched's own jobs do not wait for that, jobs given back to Slurm do", seconds+1),
		"a shorter credential lifetime shortens it", "", nil}
}

func jwtKey(f Facts, c slurm.Config) verdict {
	if f.Site.Slurm.TokenFile == "" {
		return verdict{}
	}
	path, jwks := "", false
	for _, p := range c.List("AuthAltParameters") {
		if v, ok := strings.CutPrefix(p, "jwt_key="); ok {
			path = v
		}
		jwks = jwks || strings.HasPrefix(p, "jwks=")
	}
	switch key := f.JWTKey; {
	case path == "" && jwks:
		return verdict{Note, "tokens are signed elsewhere (jwks): unisched-token.service cannot mint them", "let the issuer put one into " + f.Site.Slurm.TokenFile, "", nil}
	case path == "":
		return verdict{Error, "no key signs tokens", "make one: dd if=/dev/urandom bs=32 count=1 of=/etc/slurm/jwt_hs256.key, owner SlurmUser, mode 0600",
			appended(c.List("AuthAltParameters"), "jwt_key=/etc/slurm/jwt_hs256.key"), nil}
	case key.ok() && key.V.Mode&0o077 != 0:
		return verdict{Error, fmt.Sprintf("%s has mode %#o: who can read it can be anybody", key.V.Path, key.V.Mode), "only SlurmUser may read it", "",
			[]string{"chmod 0600 " + key.V.Path}}
	}
	return verdict{}
}

func minJobAge(f Facts, c slurm.Config) verdict {
	n, ok := c.Number("MinJobAge")
	least := int64(2*f.Site.Bridge.Poll/time.Second) + 1
	if !ok || n == 0 || n >= least { // 0: never forgotten
		return verdict{}
	}
	return verdict{Error, fmt.Sprintf("finished jobs vanish after %d s, and UniSched looks every %s: it would not see how they ended", n, f.Site.Bridge.Poll),
		"keep them for several looks", strconv.FormatInt(max(300, least), 10), nil}
}

func maxJobCount(f Facts, c slurm.Config) verdict {
	n, ok := c.Number("MaxJobCount")
	if !ok || !f.Jobs.ok() || int64(f.Jobs.V)*10 < n*8 {
		return verdict{}
	}
	return verdict{Warning, fmt.Sprintf("%d of %d job records are taken: soon sbatch will be refused", f.Jobs.V, n), "allow more; needs a restart of slurmctld",
		strconv.FormatInt(n*2, 10), nil}
}

func killWait(f Facts, c slurm.Config) verdict {
	n, ok := c.Number("KillWait")
	byExit := inCodes(c.List("RequeueExit"), f.Site.Bridge.RequeueExit)
	slurms := slices.ContainsFunc(c.List("PreemptMode"), func(m string) bool { return strings.EqualFold(m, "REQUEUE") })
	wait := time.Duration(n) * time.Second
	if !ok || byExit && !slurms || wait >= f.Site.Bridge.CheckpointTimeout {
		return verdict{}
	}
	return verdict{Warning, fmt.Sprintf("a job that Slurm requeues is killed %s after TERM; it may need %s to save (bridge.checkpoint_timeout)", wait, f.Site.Bridge.CheckpointTimeout),
		"give it the time", strconv.Itoa(int(f.Site.Bridge.CheckpointTimeout / time.Second)), nil}
}

func schedulerParameters(f Facts, c slurm.Config) verdict {
	list := c.List("SchedulerParameters")
	var bad, keep []string
	for _, p := range list {
		name, value, _ := strings.Cut(p, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case name == "defer" || name == "defer_batch":
			bad = append(bad, p+" (jobs start only at the next periodic pass)")
		case name == "sched_interval" && err == nil && (n > 60 || n < 0):
			bad = append(bad, p+" (jobs wait that long for a pass)")
		case name == "sched_min_interval" && err == nil && n > 2_000_000: // microseconds
			bad = append(bad, p+" (microseconds between passes)")
		case name == "batch_sched_delay" && err == nil && n > 10:
			bad = append(bad, p+" (seconds before a release has an effect)")
		case name == "max_rpc_cnt" && err == nil && n > 0 && n < 10:
			bad = append(bad, p+" (passes stop while clients call)")
		default:
			keep = append(keep, p)
		}
	}
	if len(bad) == 0 {
		return verdict{}
	}
	return verdict{Warning, "released jobs start late: " + strings.Join(bad, "; "), "take these out", strings.Join(keep, ","), nil}
}

func jobSubmit(f Facts, c slurm.Config) verdict {
	if !c.Has("JobSubmitPlugins", "lua") {
		return verdict{Warning, "Slurm starts a new job at once, before a plan has seen it", "install job_submit.lua as /etc/slurm/job_submit.lua, or call it from your own, and switch it on",
			appended(c.List("JobSubmitPlugins"), "lua"), nil}
	}
	if f.Lua.ok() && !strings.Contains(f.Lua.V, "unisched") {
		return verdict{Warning, "job_submit.lua does nothing for UniSched: Slurm starts a new job at once, before a plan has seen it", "call unisched_delay(job_desc) from it, with pcall", "", nil}
	}
	return verdict{}
}

func appended(list []string, more ...string) string {
	out := slices.Clone(list)
	for _, m := range more {
		if !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	return strings.Join(out, ",")
}

func without(list []string, item string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == item })
}

// withoutStatic leaves out what Slurm counts whatever slurm.conf says.
func withoutStatic(list []string) []string {
	static := []string{"cpu", "mem", "energy", "node", "billing", "fs/disk", "vmem", "pages"}
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(static, s) })
}
