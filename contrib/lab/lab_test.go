package lab

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/bridge/siteconfig"
	"unisched/contrib/testcluster"
)

func TestParseQueue(t *testing.T) {
	got, err := parseQueue("12|PENDING|BeginTime|2026-11-29T17:52:47|4294901758|0|n[1-2]|gpu|3|\n13|RUNNING|None|N/A|0|-1000||profile|0|\n")
	want := []Queued{
		{ID: 12, State: "PENDING", Reason: "BeginTime", Begin: time.Date(2026, 11, 29, 17, 52, 47, 0, time.Local), Priority: 4294901758, Required: "n[1-2]", Partition: "gpu", Restarts: 3},
		{ID: 13, State: "RUNNING", Reason: "None", Nice: -1000, Partition: "profile"},
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(err, d)
	}
	for _, bad := range []string{"12|PENDING\n", "x|PENDING|a|b|1|0|c|d|0|\n", "1|PENDING|a|b|1|0|c|d|?|\n"} {
		if got, err := parseQueue(bad); err == nil {
			t.Errorf("%q was read as %v", bad, got)
		}
	}
	if got, err := parseQueue(""); err != nil || got != nil {
		t.Error("an empty queue:", got, err)
	}
}

func TestParseAccount(t *testing.T) {
	got, err := parseAccount("7|COMPLETED|1700000000|1700000010|1700000030|3:0|n2|billing=2,gres/gpu=2,node=1\n")
	want := Accounted{ID: 7, State: "COMPLETED", Submit: time.Unix(1700000000, 0), Start: time.Unix(1700000010, 0), End: time.Unix(1700000030, 0), Exit: 3, Nodes: "n2", GPUs: 2}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(err, d)
	}
	got, err = parseAccount("7|PENDING|1700000000|Unknown|Unknown|0:0|None assigned|\n")
	want = Accounted{ID: 7, State: "PENDING", Submit: time.Unix(1700000000, 0), Nodes: "None assigned"}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(err, d)
	}
	if _, err := parseAccount(""); err == nil {
		t.Error("a job that accounting does not know was read")
	}
}

// TestConfigIsOneThatTheDaemonTakes reads back what the lab writes, with settings of its caller on top.
func TestConfigIsOneThatTheDaemonTakes(t *testing.T) {
	l := &Lab{StateDir: "/tmp/l/state", Socket: "/tmp/l/control.sock", Dir: "/tmp/l", Slurm: &testcluster.Cluster{RestURL: "http://127.0.0.1:7002", TokenFile: "/tmp/l/token",
		Scontrol: []string{"chroot", "--userspec=unisched", `/tmp/l/a "b"`, "scontrol"}},
		o: Options{Unit: 5 * time.Second, Poll: 500 * time.Millisecond, Delay: 9 * time.Second, Stage: "soft", Config: map[string]string{"bridge.unit": `"8s"`, "bridge.profile_partition": `""`}}}
	site, _, err := siteconfig.Parse(siteconfig.File{Name: "lab", Text: []byte(l.config(1234))})
	if err != nil {
		t.Fatal(err)
	}
	b := site.Bridge
	if b.Unit != 8*time.Second || b.Poll != 500*time.Millisecond || b.Delay != 9*time.Second || b.Stage != "soft" || b.ProfilePartition != "" {
		t.Errorf("bridge: %+v", b)
	}
	if d := cmp.Diff(l.Slurm.Scontrol, site.Slurm.Scontrol); d != "" {
		t.Error(d)
	}
	if site.Daemon.Listen != "127.0.0.1:1234" {
		t.Errorf("listen: %q", site.Daemon.Listen)
	}
}

func TestWaitForTellsWhatItSawLast(t *testing.T) {
	dir := t.TempDir()
	l := &Lab{LogFile: filepath.Join(dir, "log")}
	if err := os.WriteFile(l.LogFile, []byte(strings.Repeat("old line\n", 1000)+"the last line\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	err := l.WaitFor(ctx, "rain", func() (bool, string, error) {
		asked++
		cancel()
		return false, "the sky is blue", nil
	})
	for _, want := range []string{"rain", "the sky is blue", "the last line"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
	if !errors.Is(err, context.Canceled) || asked != 1 || len(err.Error()) > 4000 {
		t.Errorf("asked %d times: %v", asked, err)
	}
	broken := errors.New("broken")
	if err := l.WaitFor(t.Context(), "rain", func() (bool, string, error) { return false, "", broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
	if err := l.WaitFor(t.Context(), "rain", func() (bool, string, error) { return true, "", nil }); err != nil {
		t.Error(err)
	}
}

// TestKillWithoutDaemon is what Down counts on.
func TestKillWithoutDaemon(t *testing.T) {
	l := &Lab{Dir: t.TempDir()}
	if err := l.KillDaemon(); err != nil || l.Alive() {
		t.Error(err)
	}
	if err := l.StopDaemon(); err != nil {
		t.Error(err)
	}
}

func TestLeftovers(t *testing.T) {
	queue := []Queued{
		{ID: 1, State: "RUNNING", Priority: 10, Nice: -1000},
		{ID: 2, State: "PENDING", Priority: 10, Nice: 50, Required: "n1"},
		{ID: 3, State: "PENDING", Reason: "JobHeldAdmin"},
		{ID: 4, State: "RUNNING", Priority: 10, Required: "n2"}, // of no consequence before it is back in the queue
	}
	held, pinned, nice1 := "job 3 (PENDING): held (JobHeldAdmin)", "job 2 (PENDING): pinned to n1", "job 1 (RUNNING): nice -1000"
	if d := cmp.Diff([]string{nice1, pinned, "job 2 (PENDING): nice 50", held}, leftovers(queue, nil)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{nice1, pinned, held, "job 4 (RUNNING): nice 0"}, leftovers(queue, map[int]int64{2: 50, 4: 7})); d != "" {
		t.Error("with nice values of their users:", d)
	}
}
