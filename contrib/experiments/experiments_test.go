package main

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"unisched/bridge/sim"
)

// fakeSim answers like the simulator and counts its calls; the policy "edf" fails, "llf" never ends.
const fakeSim = `#!/bin/sh
echo "$*" >> "$0.calls"
while [ $# -gt 0 ]; do [ "$1" = --policy ] && p=$2; shift; done
[ "$p" = edf ] && { echo 'no luck' >&2; exit 1; }
[ "$p" = llf ] && exec sleep 3600
m=0.1; [ "$p" = srsf ] && m=0.05
echo '{"schema_version":1,"policies":[{"name":"'$p'","jobs":3,"weighted_miss":'$m',"be_jct_mean_s":60,"checkpoint_gpu_s":3600,"resume_gpu_s":7200}],"trace":{"load":0.9}}'
`

// site is a folder with a simulator and two traces.
func site(t *testing.T) (dir string, args []string) {
	t.Helper()
	dir = t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("sim", fakeSim, 0o755)
	write("data/"+heliosTrace, "id\n", 0o644)
	write("data/traces/itp/cluster01.csv", "job_id,submission_time,duration,num_gpu\n1,0,36000,8\n2,36000,36000,8\n3,36000,36000,8\n", 0o644)
	return dir, []string{"--bin", filepath.Join(dir, "sim"), "--data", filepath.Join(dir, "data"), "--out", filepath.Join(dir, "o u't")}
}

func calls(t *testing.T, dir string) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "sim.calls"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(b), "\n")
}

// TestResumes: a cell that is there is not run again, one that failed is, and another trace or simulator begins anew.
func TestResumes(t *testing.T) {
	dir, args := site(t)
	run := func(more ...string) error {
		var out bytes.Buffer
		return command(t.Context(), append(slices.Clone(args), more...), &out, &out)
	}
	only := []string{"--only", "^itp/cluster01-mix1/full/(unisched|srsf|edf)$", "--parallel", "2"}
	err := run(only...)
	if err == nil || !strings.Contains(err.Error(), "itp/cluster01-mix1/full/edf") || !strings.Contains(err.Error(), "no luck") {
		t.Errorf("%v", err)
	}
	if n := calls(t, dir); n != 3 {
		t.Errorf("%d calls", n)
	}
	_ = run(only...)
	if n := calls(t, dir); n != 4 {
		t.Errorf("%d calls: only the failed one should have been run again", n)
	}
	if err := os.WriteFile(filepath.Join(dir, "sim"), []byte(fakeSim+"# another build\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_ = run(append([]string{"--stale"}, only...)...)
	if n := calls(t, dir); n != 5 {
		t.Errorf("%d calls: --stale accepts answers of another build", n)
	}
	_ = run(only...)
	if n := calls(t, dir); n != 8 {
		t.Errorf("%d calls: another build begins anew", n)
	}
	rows, err := csv.NewReader(strings.NewReader(read(t, dir, "o u't/results.csv"))).ReadAll()
	if err != nil || len(rows) != 3 || rows[1][3] != "unisched" && rows[1][3] != "srsf" || rows[1][4] != "3" {
		t.Errorf("%v %v", rows, err)
	}
	md := read(t, dir, "o u't/results.md")
	for _, want := range []string{"### cluster01-mix1", "| unisched | 10.0 % |  | 60 s |  |", "| srsf | 5.00 % | **0.50×** | 60 s | 1.00× |", "| 1.0 | 2.0 |"} {
		if !strings.Contains(md, want) {
			t.Errorf("no %q in\n%s", want, md)
		}
	}
	if page := read(t, dir, "o u't/index.html"); !strings.Contains(page, `<td class="below">0.50×</td>`) {
		t.Error("the page hides a ratio below 1")
	}
}

// TestCut: what does not end within the limit is shown as such, and tried again only with a longer one.
func TestCut(t *testing.T) {
	dir, args := site(t)
	var out bytes.Buffer
	run := func(limit string, more ...string) {
		t.Helper()
		if err := command(t.Context(), append(append(slices.Clone(args), "--only", "^itp/cluster01-mix1/full/(srsf|llf)$", "--limit", limit), more...), &out, &out); err != nil {
			t.Fatal(err)
		}
	}
	run("1h", "cell", "itp/cluster01-mix1/full/srsf")
	run("100ms", "cell", "itp/cluster01-mix1/full/llf")
	run("100ms")
	if n := calls(t, dir); n != 2 {
		t.Errorf("%d calls: what was cut is not run again within the same limit", n)
	}
	run("200ms")
	if n := calls(t, dir); n != 3 {
		t.Errorf("%d calls: a longer limit is another try", n)
	}
	if md := read(t, dir, "o u't/results.md"); !strings.Contains(md, "llf had not ended after 200ms") {
		t.Errorf("the cell that was cut is hidden:\n%s", md)
	}
}

// TestDrawSpeed: the picture is XML with a point for each cell.
func TestDrawSpeed(t *testing.T) {
	l := &lab{options: options{out: t.TempDir()}}
	of := func(group, workload, policy string, jobs int, cpu float64) figure {
		return figure{cell: cell{Group: group, Workload: workload, Variant: full, Policy: policy}, f: sim.Figures{Jobs: jobs}, cost: cost{CPU: cpu}}
	}
	all := []figure{of("speed", "mix1-6h", "unisched", 2000, 12), of("chronus2d", "mix1-oracle", "unisched", 7000, 42), of("speed", "mix1-6h", "srsf", 2000, 5),
		of("chronus2d", "mix2-oracle", "unisched", 7000, 99)}
	if err := l.drawSpeed(all); err != nil {
		t.Fatal(err)
	}
	var picture struct {
		Circles []struct {
			Title string `xml:"title"`
		} `xml:"circle"`
	}
	if err := xml.Unmarshal([]byte(read(t, l.out, "speed.svg")), &picture); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range picture.Circles {
		got = append(got, c.Title)
	}
	if want := "2000 jobs: 5.0 s; 2000 jobs: 12.0 s; 7000 jobs: 42.0 s"; strings.Join(got, "; ") != want {
		t.Error(got)
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestArray: the script is one that bash accepts, and its tasks name every missing cell once, with every word quoted.
func TestArray(t *testing.T) {
	dir, args := site(t)
	var out bytes.Buffer
	if err := command(t.Context(), append(args, "--only", "^(itp|load)/", "--slurm", "--limit", "90m", "--sbatch", "--partition=cpu --account=lab"), &out, &out); err != nil {
		t.Fatal(err)
	}
	if calls(t, dir) != 0 {
		t.Error("the simulator was called")
	}
	script := filepath.Join(dir, "o u't", "array.sbatch")
	text := read(t, dir, "o u't/array.sbatch")
	for _, want := range []string{"#SBATCH --array=0-92%64\n", "--time=100\n", "#SBATCH --partition=cpu\n#SBATCH --account=lab\n", `'\''t/cells.list'`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if b, err := exec.CommandContext(t.Context(), "bash", "-n", script).CombinedOutput(); err != nil {
		t.Errorf("bash -n: %v\n%s", err, b)
	}
	list := strings.Split(strings.TrimSpace(read(t, dir, "o u't/cells.list")), "\n")
	if len(list) != 93 || len(slices.Compact(slices.Sorted(slices.Values(list)))) != 93 {
		t.Errorf("%d cells in the list", len(list))
	}
	// One task, with the program replaced by one that tells what it was asked for.
	if err := os.WriteFile(filepath.Join(dir, "o u't", "experiments"), []byte("#!/bin/sh\nfor a; do echo \"<$a>\"; done\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", script)
	cmd.Env = append(os.Environ(), "SLURM_ARRAY_TASK_ID=2")
	b, err := cmd.Output()
	if err != nil || !strings.Contains(string(b), "<"+filepath.Join(dir, "o u't")+">\n") || !strings.HasSuffix(string(b), "<cell>\n<"+list[2]+">\n") {
		t.Errorf("%v\n%s", err, b)
	}
}

// TestScriptOfMany: more cells than an array may have tasks are shared out.
func TestScriptOfMany(t *testing.T) {
	l := &lab{options: options{out: "/o", bin: "/b", data: "/d"}}
	text := l.script("/o/experiments", 2500)
	if !strings.Contains(text, "--array=0-833%64") || !strings.Contains(text, "SLURM_ARRAY_TASK_ID * 3 + 1") || !strings.Contains(text, "$((from + 2))p") {
		t.Error(text)
	}
}

// TestFitting: three jobs of 80 GPU-hours each, submitted over ten hours, fill three nodes of eight.
func TestFitting(t *testing.T) {
	dir, args := site(t)
	l, err := open(options{bin: args[1], data: args[3], out: filepath.Join(dir, "o")})
	if err != nil {
		t.Fatal(err)
	}
	if n := l.fitting("traces/itp/cluster01.csv", flags("--format", "itp")); n != 3 {
		t.Errorf("%d nodes", n)
	}
}

func TestReplaced(t *testing.T) {
	got := replaced(flags("--oracle", "--days", "14", "--seed", "1"), flags("--days", "1", "--load", "2"))
	if want := "--oracle --days 1 --seed 1 --load 2"; strings.Join(got, " ") != want {
		t.Error(got)
	}
}
