package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	rows "unisched/bridge/check"
	"unisched/contrib/lab"
)

// TestCheck runs `unisched check` on a cluster that is as it should be, and then on the same cluster made wrong in nineteen ways: it finds
// every one of them, and nothing else that is worth a warning.
func TestCheck(t *testing.T) {
	l := up(t, lab.Options{Nodes: 2, NoDaemon: true, Config: map[string]string{"bridge.poll": `"10s"`}})
	conf := filepath.Join(l.Slurm.Root, "etc", "slurm", "slurm.conf")
	check(t, os.MkdirAll(l.StateDir, 0o700))

	if got := serious(checked(t, l, conf, 0)); len(got) > 0 {
		t.Errorf("on a cluster that is as it should be: %v", got)
	}

	check(t, l.StartDaemon(t.Context()))
	check(t, l.WaitFor(within(t, 90*time.Second), "the check of a daemon at work, with a watcher of the same version", func() (bool, string, error) {
		out, code, _ := l.Unisched(t.Context(), "check", "--slurm-conf", conf)
		return code == 0, out, nil
	}))
	check(t, l.StopDaemon())

	spoil(t, l, conf)
	doc := checked(t, l, conf, 1)
	want := []string{
		"gpu-tres", "job-requeue", "job-submit", "min-job-age", "priority", "profile-max-nodes", "profile-nodes", "profile-qos",
		"requeue-exit", "rights", "scheduler-parameters", "slurmd-timeout", "state-dir-fs", "state-dir-mode", "state-dir-space", "taskprolog", "token", "token-mode",
	}
	if d := cmp.Diff(want, serious(doc)); d != "" {
		t.Errorf("on a cluster that is wrong (-want +got):\n%s", d)
	}
	for _, f := range doc.Findings {
		if f.ID == "job-requeue" && (!strings.HasPrefix(f.Where, conf+":") || f.Have != "JobRequeue=0" || !slices.Equal(f.Want, []string{"JobRequeue=1"})) {
			t.Errorf("the finding does not show its line: %+v", f)
		}
	}
	mended(t, l, conf, doc)
}

type checkDoc struct {
	Findings []rows.Finding
	Snippet  string
}

// checked runs the command and reads its answer; its exit code must be the one given.
func checked(t *testing.T, l *lab.Lab, conf string, code int) checkDoc {
	t.Helper()
	out, got, err := l.Unisched(t.Context(), "check", "-o", "json", "--fix-snippets", "--slurm-conf", conf)
	if got != code {
		t.Fatalf("exit code %d, want %d: %v\n%s", got, code, err, out)
	}
	var doc checkDoc
	check(t, json.Unmarshal([]byte(out), &doc))
	return doc
}

// serious names the findings that are errors or warnings, or could not be seen.
func serious(doc checkDoc) []string {
	var ids []string
	for _, f := range doc.Findings {
		if f.Severity != rows.OK && f.Severity != rows.Note {
			ids = append(ids, f.ID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// spoil makes the cluster, its accounting, the token and the journal's folder wrong.
func spoil(t *testing.T, l *lab.Lab, conf string) {
	t.Helper()
	text := string(must(os.ReadFile(conf))(t))
	for _, change := range [][2]string{
		{"JobRequeue=1", "JobRequeue=0"},
		{"RequeueExit=99", "RequeueExit=1-5"},
		{"MinJobAge=300", "MinJobAge=5"},
		{"SlurmdTimeout=20", "SlurmdTimeout=0"},
		{"AccountingStorageTRES=gres/gpu", "AccountingStorageTRES=license/x"},
		{"PriorityType=priority/multifactor", "PriorityType=priority/basic"},
		{"SchedulerParameters=sched_interval=5", "SchedulerParameters=defer,sched_interval=600"},
		{"JobSubmitPlugins=lua", ""},
		{"TaskProlog=/etc/slurm/unisched-taskprolog", ""},
		{"PartitionName=profile Nodes=ALL", "PartitionName=profile Nodes=n1"},
		{"MaxNodes=2", "MaxNodes=1"},
	} {
		if !strings.Contains(text, change[0]) {
			t.Fatalf("slurm.conf has no %q", change[0])
		}
		text = strings.Replace(text, change[0], change[1], 1)
	}
	check(t, os.WriteFile(conf, []byte(text), 0o644))
	must(l.Exec("root", "sacctmgr", "-i", "modify", "user", "unisched", "set", "adminlevel=none"))(t)
	must(l.Exec("root", "sacctmgr", "-i", "modify", "qos", "profile", "set", "maxtresperjob=gres/gpu=-1"))(t)
	check(t, l.Service("stop", "slurmctld"))
	check(t, l.Service("start", "slurmctld"))
	check(t, l.Token(2*time.Minute))
	check(t, os.Chmod(l.Slurm.TokenFile, 0o644))
	check(t, syscall.Mount("tmpfs", l.StateDir, "tmpfs", 0, "mode=0777,size=80m"))
	t.Cleanup(func() { check(t, syscall.Unmount(l.StateDir, 0)) })
}

// mended applies what the snippet says to slurm.conf and expects those findings gone.
func mended(t *testing.T, l *lab.Lab, conf string, doc checkDoc) {
	t.Helper()
	text := string(must(os.ReadFile(conf))(t))
	for line := range strings.Lines(doc.Snippet) {
		key, _, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok || strings.HasPrefix(key, "#") {
			continue
		}
		var kept []string
		for old := range strings.Lines(text) {
			name, _, _ := strings.Cut(old, "=")
			partition := key == "PartitionName" && !strings.HasPrefix(old, "PartitionName=profile")
			if name != key || partition {
				kept = append(kept, old)
			}
		}
		text = strings.Join(kept, "") + line
	}
	check(t, os.WriteFile(conf, []byte(text), 0o644))
	check(t, l.Service("stop", "slurmctld"))
	check(t, l.Service("start", "slurmctld"))
	left := serious(checked(t, l, conf, 1))
	// What is not slurm.conf's, and the hook, whose path in the snippet is the packages'.
	if d := cmp.Diff([]string{"profile-qos", "rights", "state-dir-fs", "state-dir-mode", "state-dir-space", "token", "token-mode"}, left); d != "" {
		t.Errorf("with the snippet merged (-want +got):\n%s\n%s", d, doc.Snippet)
	}
}
