package check

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/bridge"
	"unisched/bridge/siteconfig"
	"unisched/slurm"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// healthy is a site at which nothing is wrong, with the slurm.conf of a real controller.
func healthy(t testing.TB) Facts {
	t.Helper()
	text, err := os.ReadFile("../../slurm/testdata/24.11.config.txt")
	if err != nil {
		t.Fatal(err)
	}
	c := slurm.ParseConfig("scontrol show config", string(text)+"Prolog=/usr/lib/unisched/prolog\nEpilog=/usr/lib/unisched/epilog\n")
	c = with(c, "TaskProlog", "/usr/lib/unisched/taskprolog", "PrologFlags", "Alloc", "AuthInfo", "cred_expire=5")
	s := siteconfig.Defaults()
	s.Daemon.Listen = ":6821"
	return Facts{
		Now: noon, Version: "v1", Site: s, SiteFrom: "unisched.toml",
		Surface:    See(slurm.Surface{Versions: []string{"v0.0.41", "v0.0.42"}}, nil),
		Pong:       See(slurm.Pong{API: "v0.0.42", Release: "24.11.5", Cluster: "c"}, nil),
		Config:     See(c, nil),
		Lines:      map[string]Line{"jobrequeue": {"slurm.conf", 7, "JobRequeue=1"}},
		Rights:     See(slurm.Rights{Known: true, Level: "Operator"}, nil),
		Partitions: See([]slurm.Partition{{Name: "gpu", Up: true, Nodes: []string{"n1", "n2"}}, {Name: "profile", Up: true, Nodes: []string{"n1", "n2"}, MaxNodes: 2, MaxTime: time.Hour, QOS: "profile"}}, nil),
		QOS:        See(slurm.QOS{Known: true, GPUsPerJob: 2}, nil),
		Caps:       See([]slurm.GPUCap{{Of: "QOS profile", Limit: "MaxTRESPerJob", Count: 2}}, nil),
		Slurmds:    See([]slurm.Slurmd{{Node: "n1", Version: "24.11.5", GRES: "gpu:4", Used: "gpu:0(IDX:N/A)"}, {Node: "n2", Version: "24.11.5", GRES: "gpu:4", Used: "gpu:2(IDX:0-1)"}}, nil),
		Jobs:       See(100, nil), Skew: See(Skew{time.Second, time.Second}, nil),
		Token:     See(slurm.Token{User: "unisched", Issued: noon.Add(-time.Hour), Expires: noon.Add(time.Hour)}, nil),
		TokenFile: See(File{Path: "/run/unisched-auth/token", Mode: 0o640}, nil),
		NodeKey:   See(File{Path: "/etc/unisched/node.key", Mode: 0o640, Size: 45}, nil),
		JWTKey:    See(File{Path: "/etc/slurm/jwt_hs256.key", Mode: 0o600}, nil),
		StateDir:  See(Dir{Path: "/var/lib/unisched", Exists: true, IsDir: true, UID: 990, Mode: 0o700, FS: "ext4", FreeMB: 50_000, FreeFile: 1e6}, nil),
		DaemonUID: See[uint32](990, nil), Solver: See(10*time.Millisecond, nil), Scontrol: See("slurm 24.11.5", nil),
		Daemon:   See(bridge.View{Stage: bridge.Shadow}, nil),
		Watchers: See([]Watcher{{Node: "n1", Version: "v1"}, {Node: "n2", Version: "v1"}}, nil),
	}
}

// with is a configuration with some values changed.
func with(c slurm.Config, kv ...string) slurm.Config {
	values := map[string]string{}
	for _, r := range confRules {
		values[r.key] = c.Text(r.key)
	}
	for _, key := range []string{"Prolog", "Epilog", "TaskProlog", "PrologFlags", "SlurmUser", "ClusterName", "PreemptMode", "SLURM_CONF"} {
		values[key] = c.Text(key)
	}
	for i := 0; i < len(kv); i += 2 {
		values[kv[i]] = kv[i+1]
	}
	return slurm.NewConfig(c.Source, values)
}

func TestHealthySiteHasNoFindings(t *testing.T) {
	for _, f := range Run(healthy(t)) {
		if f.Severity != OK {
			t.Errorf("%+v", f)
		}
	}
}

// found is what is left of a finding for comparing it.
func found(f Finding) string {
	return fmt.Sprintf("%s %s %s", f.Severity, f.ID, strings.Join(f.Want, "; "))
}

func TestFindings(t *testing.T) {
	conf := func(kv ...string) func(*Facts) {
		return func(f *Facts) { f.Config.V = with(f.Config.V, kv...) }
	}
	part := func(i int, change func(*slurm.Partition)) func(*Facts) {
		return func(f *Facts) { change(&f.Partitions.V[i]) }
	}
	away := errors.New("away")
	for _, tt := range []struct {
		name  string
		spoil func(*Facts)
		want  []string
	}{
		// slurm.conf
		{"no requeue", conf("JobRequeue", "0"), []string{"error job-requeue JobRequeue=1"}},
		{"code not in RequeueExit, but scontrol works", conf("RequeueExit", "1-5,7"), []string{"warning requeue-exit RequeueExit=1-5,7,99", "warning kill-wait KillWait=300"}},
		{"code not in RequeueExit, and no other way", func(f *Facts) {
			conf("RequeueExit", "")(f)
			f.Scontrol.Err, f.Site.Slurm.Scontrol, f.Surface.V.Requeue = away, nil, false
		}, []string{"error requeue-exit RequeueExit=99", "warning requeue-way ", "warning kill-wait KillWait=300", "note scontrol "}},
		{"code in a range", conf("RequeueExit", "90-110"), nil},
		{"code also held, alone", conf("RequeueExitHold", "98,99"), []string{"error requeue-exit-hold RequeueExitHold=98"}},
		{"code also held, in a range", conf("RequeueExitHold", "98-99"), []string{"error requeue-exit-hold "}},
		{"credentials of two minutes", conf("AuthInfo", ""), []string{"note cred-expire "}},
		{"no tokens", conf("AuthAltTypes", ""), []string{"error jwt AuthAltTypes=auth/jwt"}},
		{"no tokens, and none wanted", func(f *Facts) { conf("AuthAltTypes", "", "AuthAltParameters", "")(f); f.Site.Slurm.TokenFile = "" }, nil},
		{"no key", conf("AuthAltParameters", ""), []string{"error jwt-key AuthAltParameters=jwt_key=/etc/slurm/jwt_hs256.key"}},
		{"tokens signed elsewhere", conf("AuthAltParameters", "jwks=/etc/slurm/jwks.json"), []string{"note jwt-key "}},
		{"key open to all", func(f *Facts) { f.JWTKey.V.Mode = 0o644 }, []string{"error jwt-key "}},
		{"GPUs not counted", conf("AccountingStorageTRES", "cpu,mem,node,license/x"), []string{"error gpu-tres AccountingStorageTRES=license/x,gres/gpu"}},
		{"no slurmdbd", conf("AccountingStorageType", ""), []string{"warning accounting AccountingStorageType=accounting_storage/slurmdbd"}},
		{"limits not enforced", conf("AccountingStorageEnforce", "associations"), []string{"note enforce AccountingStorageEnforce=associations,limits,qos"}},
		{"no GRES", conf("GresTypes", ""), []string{"error gres-types GresTypes=gpu"}},
		{"selector of whole nodes", conf("SelectType", "select/linear"), []string{"error select-type SelectType=select/cons_tres"}},
		{"no backfill", conf("SchedulerType", "sched/builtin"), []string{"warning scheduler SchedulerType=sched/backfill"}},
		{"no multifactor", conf("PriorityType", "priority/basic"), []string{"warning priority PriorityType=priority/multifactor"}},
		{"no multifactor, and none wanted", func(f *Facts) { conf("PriorityType", "priority/basic")(f); f.Site.Bridge.PriorityMode = "off" }, nil},
		{"jobs forgotten at once", conf("MinJobAge", "20 sec"), []string{"error min-job-age MinJobAge=300"}},
		{"jobs never forgotten", conf("MinJobAge", "0 sec"), nil},
		{"long polls", func(f *Facts) { f.Site.Bridge.Poll = 200 * time.Second }, []string{"error min-job-age MinJobAge=401"}},
		{"almost full", func(f *Facts) { f.Jobs.V = 8500 }, []string{"warning max-job-count MaxJobCount=20000"}},
		{"Slurm preempts by requeue", conf("PreemptMode", "REQUEUE", "PreemptType", "preempt/qos"), []string{"warning kill-wait KillWait=300", "warning preempt "}},
		{"deferred scheduling", conf("SchedulerParameters", "defer,bf_continue,sched_min_interval=5000000,sched_interval=30,batch_sched_delay=20,max_rpc_cnt=2"),
			[]string{"warning scheduler-parameters SchedulerParameters=bf_continue,sched_interval=30"}},
		{"private data, as an operator", conf("PrivateData", "jobs,nodes"), nil},
		{"private data, as nobody", func(f *Facts) { conf("PrivateData", "jobs,nodes")(f); f.Rights.V.Level = "None" }, []string{"error rights ", "error private-data "}},
		{"dead nodes kept", conf("SlurmdTimeout", "0 sec"), []string{"warning slurmd-timeout SlurmdTimeout=300"}},
		{"dead nodes kept long", conf("SlurmdTimeout", "7200 sec"), []string{"note slurmd-timeout SlurmdTimeout=300"}},
		{"no submit plugin", conf("JobSubmitPlugins", "all_partitions"), []string{"warning job-submit JobSubmitPlugins=all_partitions,lua"}},
		{"a submit plugin of their own", func(f *Facts) { f.Lua = See("return slurm.SUCCESS", nil) }, []string{"warning job-submit "}},
		{"calls limited", conf("SlurmctldParameters", "rl_enable"), []string{"note rate-limit "}},
		{"no slurm.conf", func(f *Facts) { f.Config = See(slurm.Config{}, away) }, []string{"unseen slurm-conf "}},

		// hooks
		{"no hooks", conf("Prolog", "", "Epilog", "", "TaskProlog", ""), []string{"warning prolog Prolog=/usr/lib/unisched/prolog",
			"warning taskprolog TaskProlog=/usr/lib/unisched/taskprolog", "note epilog Epilog=/usr/lib/unisched/epilog"}},
		{"hooks of their own, elsewhere", conf("TaskProlog", "/etc/slurm/tp"), []string{"unseen taskprolog "}},
		{"hooks of their own, which call ours", func(f *Facts) {
			conf("TaskProlog", "/etc/slurm/tp")(f)
			f.Scripts = map[string]File{"/etc/slurm/tp": {Mode: 0o755, Text: "unisched-node taskprolog"}}
		}, nil},
		{"hooks of their own, which do not", func(f *Facts) {
			conf("TaskProlog", "/etc/slurm/tp")(f)
			f.Scripts = map[string]File{"/etc/slurm/tp": {Mode: 0o755, Text: "true"}}
		}, []string{"warning taskprolog "}},
		{"hook not executable", func(f *Facts) {
			f.Scripts = map[string]File{"/usr/lib/unisched/prolog": {Mode: 0o644, Text: "unisched"}}
		}, []string{"error prolog "}},
		{"prolog not at the allocation", conf("PrologFlags", ""), []string{"note prolog-flags PrologFlags=Alloc"}},

		// slurmrestd and slurmctld
		{"slurmrestd away", func(f *Facts) { f.Surface = See(slurm.Surface{}, away); f.Pong = See(slurm.Pong{}, away) }, []string{"error slurmrestd "}},
		{"slurmrestd too old", func(f *Facts) { f.Surface.V.Versions = []string{"v0.0.39"} }, []string{"error api "}},
		{"slurmctld away", func(f *Facts) { f.Pong = See(slurm.Pong{}, away) }, []string{"error slurmctld "}},
		{"token refused", func(f *Facts) { f.Pong = See(slurm.Pong{}, fmt.Errorf("x: %w", slurm.ErrUnauthorised)) }, []string{"error auth "}},
		{"Slurm too old", func(f *Facts) { f.Pong.V.Release = "23.11.10" }, []string{"error release "}},
		{"clock off by ten seconds", func(f *Facts) { f.Skew.V.Ahead = -12 * time.Second }, []string{"warning clock "}},
		{"clock off by minutes", func(f *Facts) { f.Skew.V.Ahead = 4 * time.Minute }, []string{"error clock "}},
		{"clock off, but the look took long", func(f *Facts) { f.Skew.V = Skew{20 * time.Second, 18 * time.Second} }, nil},

		// rights
		{"unknown to accounting", func(f *Facts) { f.Rights.V = slurm.Rights{} }, []string{"error rights "}},
		{"no operator", func(f *Facts) { f.Rights.V.Level = "None" }, []string{"error rights "}},
		{"administrator", func(f *Facts) { f.Rights.V.Level = "Administrator" }, []string{"note rights "}},
		{"SlurmUser", func(f *Facts) { f.Token.V.User, f.Site.Slurm.User = "slurm", "slurm" }, []string{"warning rights "}},
		{"slurmdbd away", func(f *Facts) { f.Rights = See(slurm.Rights{}, away) }, []string{"error rights "}},

		// partitions
		{"no such partition", func(f *Facts) { f.Site.Bridge.Partitions = []string{"gpu", "a100"} }, []string{"error partition "}},
		{"partition down", part(0, func(p *slurm.Partition) { p.Up = false }), []string{"warning partition "}},
		{"no profile partition", func(f *Facts) { f.Partitions.V = f.Partitions.V[:1] },
			[]string{"error profile PartitionName=profile Nodes=ALL MaxNodes=2 MaxTime=00:30:00 QOS=profile State=UP"}},
		{"no profile partition wanted", func(f *Facts) { f.Site.Bridge.ProfilePartition = "" }, []string{"note profile "}},
		{"profile partition all wrong, its line kept", func(f *Facts) {
			f.Lines["partitionname=profile"] = Line{"slurm.conf", 9, "PartitionName=profile Nodes=n1 OverSubscribe=NO maxtime=1"}
			part(1, func(p *slurm.Partition) {
				p.Up, p.Nodes, p.MaxNodes, p.MaxTime, p.QOS = false, p.Nodes[:1], 0, time.Minute, ""
			})(f)
		}, func() []string {
			line := " PartitionName=profile Nodes=n[1-2] OverSubscribe=NO MaxTime=10 State=UP MaxNodes=2 QOS=profile"
			return []string{"error profile" + line, "error profile-nodes" + line, "error profile-time" + line, "warning profile-max-nodes" + line, "warning profile-qos" + line}
		}()},
		{"profile on one node", part(1, func(p *slurm.Partition) { p.MaxNodes = 1 }),
			[]string{"error profile-max-nodes PartitionName=profile Nodes=ALL MaxNodes=2 MaxTime=00:30:00 QOS=profile State=UP"}},
		{"profile QOS without a cap", func(f *Facts) { f.QOS.V.GPUsPerJob = -1 }, []string{"warning profile-qos "}},
		{"profile QOS that caps at one", func(f *Facts) { f.QOS.V.GPUsPerJob = 1 }, []string{"error profile-qos "}},
		{"profile QOS that caps one type alone", func(f *Facts) {
			f.QOS.V.GPUsPerJob = -1
			f.Caps.V = []slurm.GPUCap{{Of: "QOS profile", Limit: "MaxTRESPerJob", Type: "a100", Count: 2}}
		}, []string{"warning profile-qos ", "note typed-cap "}},
		{"profile QOS that caps one type at one", func(f *Facts) {
			f.Caps.V = append(f.Caps.V, slurm.GPUCap{Of: "QOS profile", Limit: "MaxTRESPerJob", Type: "a100", Count: 1})
		}, []string{"error profile-qos ", "note typed-cap "}},
		{"a limit of a user on one type", func(f *Facts) {
			f.Caps.V = append(f.Caps.V, slurm.GPUCap{Of: "user ann of account phys", Limit: "GrpTRES", Type: "a100", Count: 8})
		}, []string{"note typed-cap "}},
		{"limits that cannot be seen", func(f *Facts) { f.Caps.Err = away }, []string{"unseen typed-cap "}},
		{"nodes with several types", func(f *Facts) {
			f.Slurmds.V = append(f.Slurmds.V, slurm.Slurmd{Node: "n3", Version: "24.11.5", GRES: "gpu:a100:2(S:0-1),gpu:v100:2", Used: "gpu:a100:0(IDX:N/A),gpu:v100:0(IDX:N/A)"},
				slurm.Slurmd{Node: "n4", Version: "24.11.5", GRES: "gpu:v100:4", Used: "gpu:v100:0(IDX:N/A)"})
		}, []string{"note gpu-types "}},
		{"profile QOS unknown", func(f *Facts) { f.QOS.V = slurm.QOS{} }, []string{"error profile-qos "}},
		{"partitions not seen", func(f *Facts) { f.Partitions.Err = away }, []string{"unseen partitions "}},

		// nodes
		{"old slurmd", func(f *Facts) { f.Slurmds.V[0].Version = "22.05.8" }, []string{"warning slurmd "}},
		{"GPUs without devices, in use", func(f *Facts) { f.Slurmds.V[1].Used = "gpu:2(CNT:2)" }, []string{"error gres "}},
		{"GPUs without devices, in gres.conf", func(f *Facts) { f.GresConf = See("AutoDetect=off\nNodeName=n1 Name=gpu Count=4\n", nil) }, []string{"error gres "}},
		{"GPUs found by NVML", func(f *Facts) { f.GresConf = See("AutoDetect=nvml\nName=gpu\n", nil) }, nil},
		{"no GPUs", func(f *Facts) { f.Slurmds.V = []slurm.Slurmd{{Node: "n1", Version: "24.11.5"}} }, []string{"error gres "}},
		{"old watcher", func(f *Facts) { f.Watchers.V[1].Version = "v0" }, []string{"warning node-version "}},
		{"watcher without a version, with a wrong clock", func(f *Facts) { f.Watchers.V[1] = Watcher{Node: "n2", Ahead: -time.Minute} }, []string{"warning node-version ", "warning node-clock "}},
		{"no watchers", func(f *Facts) { f.Watchers.V = nil }, []string{"warning node-version "}},
		{"no listener", func(f *Facts) { f.Site.Daemon.Listen = "" }, []string{"warning listen "}},
		{"no node key", func(f *Facts) { f.NodeKey.Err = away }, []string{"error node-key "}},
		{"node key open to all", func(f *Facts) { f.NodeKey.V.Mode = 0o644 }, []string{"error node-key "}},
		{"node key too short", func(f *Facts) { f.NodeKey.V.Size = 8 }, []string{"error node-key "}},

		// this host
		{"token missing", func(f *Facts) { f.Token = See(slurm.Token{}, fs.ErrNotExist) }, []string{"error token "}},
		{"token not readable by us", func(f *Facts) { f.Token = See(slurm.Token{}, fs.ErrPermission) }, []string{"unseen token "}},
		{"token expired", func(f *Facts) { f.Token.V.Expires = noon.Add(-time.Second) }, []string{"error token "}},
		{"token about to expire", func(f *Facts) { f.Token.V.Expires = noon.Add(5 * time.Minute) }, []string{"warning token "}},
		{"token for ever", func(f *Facts) { f.Token.V.Expires = time.Time{} }, []string{"warning token "}},
		{"token for a year", func(f *Facts) { f.Token.V.Expires = noon.Add(365 * 24 * time.Hour) }, []string{"note token "}},
		{"token from the future", func(f *Facts) { f.Token.V.Issued = noon.Add(5 * time.Minute) }, []string{"warning token "}},
		{"token of another", func(f *Facts) { f.Token.V.User = "alice" }, []string{"error token-user "}},
		{"token open to all", func(f *Facts) { f.TokenFile.V.Mode = 0o644 }, []string{"error token-mode "}},
		{"token that cannot be read", func(f *Facts) { f.Token = See(slurm.Token{}, slurm.ErrOpaque) }, []string{"unseen token "}},
		{"journal on a tmpfs", func(f *Facts) { f.StateDir.V.FS, f.StateDir.V.Volatile = "tmpfs", true }, []string{"error state-dir-fs "}},
		{"journal of another", func(f *Facts) { f.StateDir.V.UID = 0 }, []string{"error state-dir-owner "}},
		{"journal readable", func(f *Facts) { f.StateDir.V.Mode = 0o755 }, []string{"warning state-dir-mode "}},
		{"journal writable", func(f *Facts) { f.StateDir.V.Mode = 0o777 }, []string{"error state-dir-mode "}},
		{"disk full", func(f *Facts) { f.StateDir.V.FreeMB = 3 }, []string{"error state-dir-space "}},
		{"no inodes", func(f *Facts) { f.StateDir.V.FreeFile = 3 }, []string{"error state-dir-space "}},
		{"disk almost full", func(f *Facts) { f.StateDir.V.FreeMB = 300 }, []string{"warning state-dir-space "}},
		{"no journal folder", func(f *Facts) { f.StateDir.V.Exists = false }, []string{"warning state-dir "}},
		{"journal folder is a file", func(f *Facts) { f.StateDir.V.IsDir = false }, []string{"error state-dir "}},
		{"solver broken", func(f *Facts) { f.Solver.Err = away }, []string{"error solver "}},
		{"scontrol broken", func(f *Facts) { f.Scontrol.Err = away }, []string{"warning requeue-way ", "warning scontrol "}},
		{"configuration broken", func(f *Facts) { f.SiteErr = errors.New("a: 1\nb: 2") }, []string{"error config ", "error config "}},
		{"daemon down", func(f *Facts) { f.Daemon.Err = away }, []string{"note daemon "}},
		{"daemon blind", func(f *Facts) { f.Daemon.V.Trouble = "x" }, []string{"error daemon "}},
		{"daemon careful", func(f *Facts) { f.Daemon.V.Suspect = "x" }, []string{"warning daemon "}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := healthy(t)
			tt.spoil(&f)
			var got []string
			for _, one := range Run(f) {
				if one.Severity == OK {
					continue
				}
				got = append(got, found(one))
				if one.Severity != Unseen && one.ID != "config" && one.ID != "daemon" && one.Fix == "" {
					t.Errorf("%s does not say what to change", one.ID)
				}
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// A finding shows the line of the file where it is known, else what the controller says.
func TestFindingsShowTheLine(t *testing.T) {
	f := healthy(t)
	f.Config.V = with(f.Config.V, "JobRequeue", "0", "RequeueExit", "")
	f.Lines["jobrequeue"] = Line{"/etc/slurm/slurm.conf", 31, "JobRequeue=0 # why not"}
	var got []string
	for _, one := range Run(f) {
		if one.Severity == Error || one.Severity == Warning {
			got = append(got, one.ID+": "+one.Where+": "+one.Have)
		}
	}
	want := []string{"job-requeue: /etc/slurm/slurm.conf:31: JobRequeue=0 # why not", "requeue-exit: scontrol show config: RequeueExit is not set", "kill-wait: scontrol show config: KillWait=10 sec"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if w := Worst(Run(f)); w != Error {
		t.Errorf("worst %s", w)
	}
	if w := Worst(nil); w != OK {
		t.Errorf("worst of nothing: %s", w)
	}
}

// What comes from outside cannot leave its comment, and each line comes once.
func TestSnippet(t *testing.T) {
	got := Snippet([]Finding{
		{ID: "a", Severity: Error, What: "bad\nJobRequeue=0", Where: "x:1", Have: "y", Want: []string{"JobRequeue=1"}},
		{ID: "b", Severity: Warning, What: "again", Want: []string{"JobRequeue=1"}, Run: []string{"cmd"}},
		{ID: "c", Severity: OK, What: "fine", Want: []string{"z"}},
	})
	want := `# For slurm.conf, in place of lines with the same key. Then: scontrol reconfigure, or a restart where the reason says so.

# bad JobRequeue=0
# now: x:1: y
JobRequeue=1

# To be run:
# again:
#   cmd
`
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if s := Snippet(Run(healthy(t))); s != "" {
		t.Errorf("snippet of a healthy site: %s", s)
	}
}

func TestRuleIDsAreUnique(t *testing.T) {
	var ids []string
	for _, r := range confRules {
		ids = append(ids, r.id)
	}
	slices.Sort(ids)
	if n := len(ids); len(slices.Compact(ids)) != n {
		t.Error("two rules share an id")
	}
}
