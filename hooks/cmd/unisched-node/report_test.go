package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var timeMember = regexp.MustCompile(`,?"t":[0-9.]+`)

func TestReport(t *testing.T) {
	for _, c := range []struct {
		args string
		want string // "" is a usage error
	}{
		{"iter=1200", `{"iter":1200}`},
		{"val_acc=0.71 iter=1200 epoch=3", `{"iter":1200,"epoch":3,"val_acc":0.71}`},
		{"ready", `{"ready":true}`},
		{"ready iter=5 resumed batch=32 grad_bytes=9", `{"ready":true,"iter":5,"resumed":true,"grad_bytes":9,"batch":32}`},
		{"checkpoint iter=1200 bytes=5 seconds=0.5", `{"checkpoint":true,"iter":1200,"bytes":5,"seconds":0.5}`},
		{"checkpoint=true", `{"checkpoint":true}`},
		{"done=target iter=9", `{"done":true,"iter":9,"reason":"target"}`},
		{"signal=SIGUSR1", `{"signal":"USR1"}`},
		{"iter=3 loss=nan acc=inf lr=1e-3", `{"iter":3,"lr":0.001}`},
		{"", ""}, {"iter", ""}, {"iter=x", ""}, {"iter=-1", ""}, {"iter=1.5", ""}, {"loss=1", ""}, {"iter=1 loss=high", ""},
		{"ready done", ""}, {"iter=1 iter=2", ""}, {"iter=1 t=5", ""}, {"ready=no", ""}, {"signal=$(x)", ""}, {"iter=1 a\"b=3", ""},
	} {
		path := filepath.Join(t.TempDir(), "p")
		code, out, errs := invoke(map[string]string{"UNISCHED_PROGRESS": path}, append([]string{"report"}, strings.Fields(c.args)...)...)
		got, _ := os.ReadFile(path)
		line := timeMember.ReplaceAllString(string(got), "")
		if c.want == "" {
			if code != exitUsage || errs == "" || line != "" {
				t.Errorf("%q: got %d %q %q, want a usage error", c.args, code, line, errs)
			}
		} else if code != exitOK || out != "" || line != c.want+"\n" || line == string(got) {
			t.Errorf("%q: got %d %q (%q)", c.args, code, got, errs)
		}
	}
}

func TestReportStaysOut(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, dir+"/victim", "precious")
	mustSymlink(t, dir+"/victim", dir+"/link")
	for name, env := range map[string]map[string]string{
		"no file":      {},
		"other rank":   {"UNISCHED_PROGRESS": dir + "/rank1", "SLURM_PROCID": "1"},
		"missing":      {"UNISCHED_PROGRESS": dir + "/no/such/p"},
		"full disk":    {"UNISCHED_PROGRESS": "/dev/full"},
		"link":         {"UNISCHED_PROGRESS": dir + "/link"},
		"is directory": {"UNISCHED_PROGRESS": dir},
	} {
		if code, out, _ := invoke(env, "report", "iter=1"); code != exitOK || out != "" {
			t.Errorf("%s: got %d %q", name, code, out)
		}
	}
	if b, _ := os.ReadFile(dir + "/victim"); string(b) != "precious" || exists(dir+"/rank1") {
		t.Error("a link was followed, or rank 1 wrote")
	}
}
