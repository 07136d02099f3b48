package siteconfig

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/bridge"
)

var sameZone = cmp.Comparer(func(a, b *time.Location) bool { return a.String() == b.String() })

// The shipped file must show exactly the defaults, and every key.
func TestShippedFileShowsTheDefaults(t *testing.T) {
	text, err := os.ReadFile("../../etc/unisched.toml")
	if err != nil {
		t.Fatal(err)
	}
	site, settings, err := Parse(File{"unisched.toml", text})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(Defaults(), site, sameZone); d != "" {
		// nil and empty lists mean the same
		if d = cmp.Diff(Defaults(), site, sameZone, cmp.Transformer("list", func(s []string) string { return strings.Join(s, "\x00") })); d != "" {
			t.Error(d)
		}
	}
	for _, s := range settings {
		if s.From == "default" {
			t.Errorf("%s is not in the shipped file", s.Key)
		}
	}
}

// What config show prints can be read back and means the same.
func TestSettingsReadBack(t *testing.T) {
	want := Defaults()
	want.Bridge.Unit, want.Bridge.CanaryShare, want.Daemon.Operators = 90*time.Second, 0.25, []string{"alice", "1001"}
	want.Daemon.SocketMode = 0o660
	var b strings.Builder
	for _, f := range fields {
		b.WriteString(f.key + " = " + f.get(&want) + "\n")
	}
	got, _, err := Parse(File{"x", []byte(b.String())})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got, sameZone); d != "" {
		t.Error(d)
	}
}

func TestParseFaults(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       string // whole error text
	}{
		{"unknown key", "[bridge]\nstage = \"soft\"\nunits = \"5m\"\n", "f:3: bridge.units: unknown key; did you mean bridge.unit?"},
		{"right word in the wrong table", "[daemon]\nunit = \"5m\"\n", "f:2: daemon.unit: unknown key; did you mean bridge.unit?"},
		{"unknown table", "[brigde]\n[brigde.x]\ny = 1\n", "f:3: brigde.x.y: unknown key"},
		{"unknown empty table", "[nothing]\n", "f:1: nothing: unknown key"},
		{"syntax", "[bridge]\nunit = 5m\n", ""},
		{"types, all at once", "[bridge]\nunit = 5\nslo_lease_units = \"2\"\npartitions = \"gpu\"\nstage = true\n", strings.Join([]string{
			`f:2: bridge.unit: wrong type: want a duration in quotes such as "5m" or "90s", got an integer`,
			"f:3: bridge.slo_lease_units: wrong type: want an integer, got a string",
			`f:4: bridge.partitions: wrong type: want an array of strings such as ["a", "b"], got a string`,
			"f:5: bridge.stage: wrong type: want a string, got a boolean"}, "\n")},
		{"values, all at once", "[bridge]\nstage = \"x\"\nrequeue_exit = 300\n[daemon]\nsocket_mode = \"0177\"\n[slurm]\nurl = \"ftp://x\"\n", strings.Join([]string{
			`f: slurm.url "ftp://x" is neither http(s)://host:port nor unix:/path`,
			"f: daemon.socket_mode 0177 lacks 0600 or has more than 0777",
			`f: bridge.stage "x" is none of [shadow canary besteffort soft strict]`,
			"f: bridge.requeue_exit 300 is not within 1..255"}, "\n")},
		{"a plain number is no mode", "[daemon]\nsocket_mode = 660\n", `f:2: daemon.socket_mode: wrong type: want a mode in quotes such as "0660", got an integer`},
		{"listen without key", "[daemon]\nlisten = \":6821\"\nnode_key_file = \"\"\n", "f: daemon.listen needs daemon.node_key_file: reports are signed"},
		{"notices", "[notify]\ncommand = [\"mail\"]\nwebhook = \"ftp://x\"\nwebhook_token_file = \"t\"\non = [\"all\"]\ntimeout = \"0s\"\nrepeat = \"-1s\"\nper_hour = 0\n[metrics]\nlisten = \"x\"\n", strings.Join([]string{
			`f: metrics.listen "x" is not address:port`,
			"f: notify.command does not begin with an absolute path",
			"f: notify.webhook is not http(s)://...",
			`f: notify.webhook_token_file "t" is not absolute`,
			`f: notify.on: "all" is none of [deadline-at-risk deadline-missed preempted checkpoint-unconfirmed put-back stalled preemption-stopped]`,
			"f: notify.timeout 0s is not within 1s..5m",
			"f: notify.repeat -1s is not within 0s..168h",
			"f: notify.per_hour 0 is not within 1..10000"}, "\n")},
		{"admission and stages", "[admission]\nstrict_qos = [\"\"]\nstrict_gpu_hours = -1\nbudget_window = \"1m\"\n[bridge]\npartition_stages = [\"gpu=all\", \"cpu=soft\"]\nunconfirmed = \"kill\"\n[accounts.a]\nstrict_gpu_hours = -2\n", strings.Join([]string{
			"f: bridge.accounts.a.strict_gpu_hours -2 is not within 0..1e12",
			"f: bridge.admission.strict_gpu_hours -1 is not within 0..1e12",
			"f: bridge.admission.budget_window 1m0s is not within 1h..17568h",
			"f: bridge.admission: a list of QOS or accounts holds an empty name, or too many",
			`f: bridge.partition_stages: "gpu=all" is not partition=stage with a stage of [shadow canary besteffort soft strict]`,
			`f: bridge.partition_stages: partition "cpu" is not in partitions`,
			`f: bridge.unconfirmed "kill" is neither keep nor requeue`}, "\n")},
		{"a page for everybody", "[web]\nlisten = \"0.0.0.0:8321\"\nhosts = [\"https://x\"]\n",
			"f: web.listen \"0.0.0.0:8321\" is not an address of the loopback such as 127.0.0.1:8321: the page has no passwords, put a proxy before it\n" +
				"f: web.hosts: \"https://x\" is no host name"},
		{"waits without end", "[bridge]\ndelay = \"2h\"\nprofile_time = \"1h\"\ncheckpoint_timeout = \"25h\"\n", "f: bridge.delay 2h0m0s is above 1h: without the daemon its jobs would wait that long\n" +
			"f: bridge.profile_time 1h0m0s, checkpoint_timeout 25h0m0s or start_timeout 30s is above 24h0m0s"},
		{"zone", "[bridge]\nzone = \"Mars/Olympus\"\n", `f:2: bridge.zone: "Mars/Olympus" is no time zone such as "Europe/Berlin": unknown time zone Mars/Olympus`},
		{"socket path too long", "[daemon]\ncontrol_socket = \"/" + strings.Repeat("a", 107) + "\"\n", "f: daemon.control_socket is longer than 99 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := Parse(File{"f", []byte(tt.text)})
			if err == nil {
				t.Fatal("accepted")
			}
			if tt.want == "" {
				if f, ok := errors.AsType[Fault](split(err)[0]); !ok || f.Line != 2 {
					t.Errorf("%v", err)
				}
				return
			}
			if d := cmp.Diff(tt.want, err.Error()); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestLoadMergesConfD(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return p
	}
	main := write("unisched.toml", "[bridge]\nunit = \"1m\"\nstage = \"canary\"\n")
	write("conf.d/20-b.toml", "[bridge]\nstage = \"strict\"\n")
	b := write("conf.d/10-a.toml", "[bridge]\nstage = \"soft\"\npoll = \"1s\"\n")
	write("conf.d/30-c.toml.bak", "nonsense")
	write("conf.d/.40.toml", "nonsense")
	site, settings, err := Load(main)
	if err != nil {
		t.Fatal(err)
	}
	want := Defaults()
	want.Bridge.Unit, want.Bridge.Stage, want.Bridge.Poll = time.Minute, bridge.StageStrict, time.Second
	if d := cmp.Diff(want, site, sameZone); d != "" {
		t.Error(d)
	}
	for _, s := range settings {
		if s.Key == "bridge.poll" && s.From != b+":3" {
			t.Errorf("bridge.poll from %s", s.From)
		}
	}
	if _, _, err := Load(filepath.Join(dir, "missing.toml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

func TestOperatorUIDs(t *testing.T) {
	lookup := func(name string) (uint32, error) {
		if name == "alice" {
			return 1001, nil
		}
		return 0, errors.New("no such user")
	}
	got, err := Daemon{Operators: []string{"alice", "77", "gone", "-1"}}.OperatorUIDs(lookup)
	if err == nil || !strings.Contains(err.Error(), `"gone"`) || !strings.Contains(err.Error(), `"-1"`) {
		t.Errorf("error %v", err)
	}
	if d := cmp.Diff(map[uint32]bool{0: true, 77: true, 1001: true}, got); d != "" {
		t.Error(d)
	}
}

// The configuration is written by admins, but a half-written file must not take the reader down.
func FuzzParse(f *testing.F) {
	f.Add([]byte("[bridge]\nunit = \"5m\"\n"))
	f.Add([]byte("[[bridge]]\nunit = 5\n[bridge.unit]\n"))
	f.Add([]byte("bridge = [1, {a = 2}]\nslurm.url = [\"\"]\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		site, _, err := Parse(File{"f", b})
		if err == nil && site.Validate() != nil {
			t.Error("accepted an invalid site")
		}
	})
}
