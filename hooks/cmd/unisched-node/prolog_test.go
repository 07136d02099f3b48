package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

func jobEnv(base string) map[string]string {
	return map[string]string{"UNISCHED_BASE": base, "SLURM_JOB_ID": "7", "SLURM_JOB_UID": strconv.Itoa(os.Geteuid()), "SLURMD_NODENAME": "n1"}
}

func modeOwner(t *testing.T, path string) (fs.FileMode, int) {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode(), int(info.Sys().(*syscall.Stat_t).Uid)
}

func TestPrologAndTaskProlog(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077)) // a strict umask must not shut users out
	base := filepath.Join(t.TempDir(), "jobs")
	env := jobEnv(base)
	for i := range 2 { // slurmd may run it again
		if code, out, errs := invoke(env, "prolog"); code != 0 || out != "" || errs != "" {
			t.Fatalf("round %d: got %d %q %q", i, code, out, errs)
		}
	}
	for path, want := range map[string]fs.FileMode{"": fs.ModeDir | 0o711, "n1": fs.ModeDir | 0o711, "n1/7": fs.ModeDir | 0o700} {
		if mode, _ := modeOwner(t, filepath.Join(base, path)); mode != want {
			t.Errorf("%q has mode %v, want %v", path, mode, want)
		}
	}
	want := "export UNISCHED_PROGRESS=" + base + "/n1/7/run-0/progress.jsonl\nexport UNISCHED_RUN=7.0\n"
	for range 2 { // once for the batch step, once for each srun task
		if code, out, errs := invoke(env, "taskprolog"); code != 0 || out != want || errs != "" {
			t.Errorf("got %d %q %q", code, out, errs)
		}
	}
	env["SLURM_RESTART_COUNT"] = "3"
	if _, out, _ := invoke(env, "taskprolog", "--base", base); out != "export UNISCHED_PROGRESS="+base+"/n1/7/run-3/progress.jsonl\nexport UNISCHED_RUN=7.3\n" {
		t.Errorf("after a requeue: %q", out)
	}
	if mode, _ := modeOwner(t, base+"/n1/7/run-3"); mode != fs.ModeDir|0o700 {
		t.Errorf("run directory has mode %v", mode)
	}
}

func TestPrologGivesTheDirectoryToTheUser(t *testing.T) {
	needRoot(t)
	base := t.TempDir()
	env := jobEnv(base)
	env["SLURM_JOB_UID"] = "4242"
	invoke(env, "prolog")
	if _, uid := modeOwner(t, base+"/n1/7"); uid != 4242 {
		t.Errorf("owner %d", uid)
	}
	mustWrite(t, base+"/n1/7/run-0/progress.jsonl", `{"iter":1}`)
	// Slurm gives the id to somebody else after a crash: what the first user left is not the second one's to read.
	env["SLURM_JOB_UID"] = "4343"
	if code, _, errs := invoke(env, "prolog"); code != 0 || errs != "" {
		t.Fatalf("got %d %q", code, errs)
	}
	if _, uid := modeOwner(t, base+"/n1/7"); uid != 4343 {
		t.Errorf("owner %d", uid)
	}
	if exists(base + "/n1/7/run-0") {
		t.Error("the first user's run is still there")
	}
	aside, _ := filepath.Glob(base + "/n1/7.of-4242-*/run-0/progress.jsonl")
	if len(aside) != 1 {
		t.Errorf("put aside: %v", aside)
	}
	if _, out, errs := invoke(env, "taskprolog"); out != "" || errs == "" {
		t.Errorf("task prolog of a user that does not own the directory: %q, %q", out, errs)
	}
}

// Hooks get whatever the environment holds; they must never fail and never leave the base directory.
func TestHooksFailOpen(t *testing.T) {
	for name, edit := range map[string]func(base string, env map[string]string){
		"no job":       func(_ string, e map[string]string) { delete(e, "SLURM_JOB_ID") },
		"path as job":  func(_ string, e map[string]string) { e["SLURM_JOB_ID"] = "../../x" },
		"leading zero": func(_ string, e map[string]string) { e["SLURM_JOB_ID"] = "007" },
		"negative job": func(_ string, e map[string]string) { e["SLURM_JOB_ID"] = "-7" },
		"huge job":     func(_ string, e map[string]string) { e["SLURM_JOB_ID"] = "99999999999999999999" },
		"newline":      func(_ string, e map[string]string) { e["SLURM_JOB_ID"] = "7\n8" },
		"path as node": func(_ string, e map[string]string) { e["SLURMD_NODENAME"] = "../n1" },
		"dot node":     func(_ string, e map[string]string) { e["SLURMD_NODENAME"] = ".." },
		"bad uid":      func(_ string, e map[string]string) { e["SLURM_JOB_UID"] = "root"; e["SLURM_RESTART_COUNT"] = "x" },
		"file as base": func(b string, e map[string]string) { e["UNISCHED_BASE"] = b + "/file" },
		"device base":  func(_ string, e map[string]string) { e["UNISCHED_BASE"] = "/dev/null" },
		"node is link": func(b string, _ map[string]string) { _ = os.Symlink(b+"/elsewhere", b+"/n1") },
		"job is link": func(b string, _ map[string]string) {
			_ = os.Mkdir(b+"/n1", 0o711)
			_ = os.Symlink(b+"/elsewhere", b+"/n1/7")
		},
		"job is a file": func(b string, _ map[string]string) {
			_ = os.Mkdir(b+"/n1", 0o711)
			_ = os.WriteFile(b+"/n1/7", nil, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			mustWrite(t, base+"/file", "")
			if err := os.Mkdir(base+"/elsewhere", 0o777); err != nil {
				t.Fatal(err)
			}
			env := jobEnv(base)
			edit(base, env)
			for _, verb := range []string{"prolog", "taskprolog", "epilog"} {
				code, out, errs := invoke(env, verb)
				if code != 0 || out != "" || (verb == "prolog" && errs == "") {
					t.Errorf("%s: got %d %q %q", verb, code, out, errs)
				}
			}
			if left, _ := os.ReadDir(base + "/elsewhere"); len(left) != 0 {
				t.Errorf("followed a link: %v", left)
			}
		})
	}
	if code, _, _ := invoke(nil, "prolog", "--nonsense"); code != 0 {
		t.Error("a bad flag fails the prolog")
	}
}

func TestTaskPrologDoesNotFollowTheUsersLinks(t *testing.T) {
	base := t.TempDir()
	env := jobEnv(base)
	invoke(env, "prolog")
	victim := t.TempDir()
	mustSymlink(t, victim, base+"/n1/7/run-0")
	if code, out, errs := invoke(env, "taskprolog"); code != 0 || out != "" || errs == "" {
		t.Errorf("got %d %q %q", code, out, errs)
	}
}

func TestTaskPrologWithoutProlog(t *testing.T) {
	if code, out, errs := invoke(jobEnv(t.TempDir()), "taskprolog"); code != 0 || out != "" || errs != "" {
		t.Errorf("got %d %q %q", code, out, errs)
	}
}

func TestEpilogMarksAndPrologUnmarks(t *testing.T) {
	base := t.TempDir()
	env := jobEnv(base)
	if invoke(env, "epilog"); exists(base + "/n1") {
		t.Error("epilog of a job without a directory made one")
	}
	invoke(env, "prolog")
	mustWrite(t, base+"/n1/7/run-0/progress.jsonl", "{}\n")
	if invoke(env, "epilog"); !exists(base+"/n1/7.ended") || !exists(base+"/n1/7/run-0/progress.jsonl") {
		t.Error("want a marker, and the job's lines kept")
	}
	if invoke(env, "prolog"); exists(base+"/n1/7.ended") || !exists(base+"/n1/7/run-0/progress.jsonl") {
		t.Error("want the marker gone, and the job's lines kept")
	}
}
