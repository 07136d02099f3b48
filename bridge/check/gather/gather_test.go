package gather

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"unisched/bridge/check"
	"unisched/bridge/siteconfig"
	"unisched/slurm"
)

// recordedAt is when the answers in slurm/testdata were recorded.
var recordedAt = time.Unix(1795983324, 0)

// site is one at which slurmrestd answers what a real one of that release did; broken paths answer 500.
func site(t *testing.T, release, api string, broken ...string) Look {
	t.Helper()
	answers := map[string]string{
		"/openapi/v3": "openapi.json", "/slurm/" + api + "/diag/": "diag.json", "/slurm/" + api + "/nodes/": "nodes.json",
		"/slurmdb/" + api + "/user/unisched": "user.json", "/slurmdb/" + api + "/qos/profile": "qos.json", "/slurmdb/" + api + "/qos/": "qos.json", "/slurmdb/" + api + "/associations/": "associations.json",
	}
	if release == "26.05" {
		answers["/slurm/"+api+"/conf/"] = "conf.json"
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case slices.Contains(broken, path):
			w.WriteHeader(http.StatusInternalServerError)
		case answers[path] != "":
			http.ServeFile(w, r, "../../../slurm/testdata/"+release+"."+answers[path])
		case path == "/slurm/"+api+"/partitions/":
			http.ServeFile(w, r, "testdata/"+release+".partitions.json")
		case path == "/slurm/"+api+"/ping/":
			fmt.Fprintf(w, `{"pings":[{"pinged":"UP"}],"meta":{"slurm":{"release":"%s.5","cluster":"c"}},"errors":[]}`, release)
		case path == "/slurm/"+api+"/jobs/state/":
			fmt.Fprint(w, `{"jobs":[{"job_id":"7","state":["RUNNING"]}],"errors":[]}`)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, "Unable find requested URL")
		}
	}))
	t.Cleanup(srv.Close)
	dir := t.TempDir()
	claims := fmt.Sprintf(`{"sun":"unisched","iat":%d,"exp":%d}`, recordedAt.Unix()-60, recordedAt.Unix()+7200)
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("e30."+base64.RawURLEncoding.EncodeToString([]byte(claims))+".c2ln"), 0o600); err != nil {
		t.Fatal(err)
	}
	scontrol := filepath.Join(dir, "scontrol")
	conf, err := filepath.Abs("../../../slurm/testdata/" + release + ".config.txt")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(scontrol, []byte("#!/bin/sh\ncase $1 in --version) echo slurm-wlm "+release+".5;; *) cat "+conf+";; esac\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := siteconfig.Defaults()
	s.Slurm.URL, s.Slurm.TokenFile, s.Slurm.Scontrol = srv.URL, token, []string{scontrol}
	s.Daemon.StateDir, s.Daemon.ControlSocket = dir, filepath.Join(dir, "c.sock")
	return Look{Now: func() time.Time { return recordedAt }, Version: "v", Site: s, SiteFrom: "x.toml", Socket: s.Daemon.ControlSocket,
		SlurmConf: filepath.Join(dir, "none.conf"), LookupUID: func(string) (uint32, error) { return 0, errors.New("nobody") }}
}

// TestRecorded judges what real clusters of both releases answered, from the wire to the findings.
func TestRecorded(t *testing.T) {
	for release, api := range map[string]string{"24.11": "v0.0.42", "26.05": "v0.0.45"} {
		t.Run(release, func(t *testing.T) {
			f := site(t, release, api).Facts(t.Context())
			got := map[string]any{
				"release": f.Pong.V.Release, "rights": f.Rights.V, "qos": f.QOS.V, "jobs": f.Jobs.V, "scontrol": f.Scontrol.V, "token": f.Token.V.User,
				"nodes": len(f.Slurmds.V), "partitions": len(f.Partitions.V), "caps": f.Caps.V, "exit": f.Config.V.Text("RequeueExit"), "requeue": f.Surface.V.Requeue,
			}
			want := map[string]any{
				"release": release + ".5", "rights": slurm.Rights{Known: true, Level: "Operator"}, "qos": slurm.QOS{Known: true, GPUsPerJob: 2}, "jobs": 1,
				"scontrol": "slurm-wlm " + release + ".5", "token": "unisched", "nodes": 2, "partitions": 2,
				"caps": []slurm.GPUCap{{Of: "QOS profile", Limit: "MaxTRESPerJob", Count: 2}, {Of: "user alice of account lab", Limit: "GrpTRES", Type: "v100", Count: 2}}, "exit": "99", "requeue": release == "26.05",
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
			// The cluster was recorded without hooks, the folder has the test's mode, and nobody listens for nodes.
			var ids []string
			for _, x := range check.Run(f) {
				if x.Severity == check.Error || x.Severity == check.Warning {
					ids = append(ids, x.ID)
				}
			}
			ids = slices.DeleteFunc(ids, func(id string) bool { return strings.HasPrefix(id, "state-dir") || id == "clock" })
			if d := cmp.Diff([]string{"listen", "prolog", "taskprolog"}, ids); d != "" {
				t.Error(d)
			}
		})
	}
}

// Each look fails alone.
func TestOneLookFails(t *testing.T) {
	for path, id := range map[string]string{
		"/slurm/v0.0.42/nodes/": "nodes", "/slurm/v0.0.42/partitions/": "partitions", "/slurm/v0.0.42/diag/": "clock", "/slurmdb/v0.0.42/user/unisched": "rights",
		"/slurmdb/v0.0.42/qos/profile": "profile-qos", "/slurmdb/v0.0.42/associations/": "typed-cap",
	} {
		t.Run(id, func(t *testing.T) {
			ids := map[string]check.Severity{}
			for _, x := range check.Run(site(t, "24.11", "v0.0.42", path).Facts(t.Context())) {
				if x.Severity != check.OK && (x.Severity == check.Unseen || x.ID == id) {
					ids[x.ID] = x.Severity
				}
			}
			want := map[string]check.Severity{id: check.Unseen}
			if id == "rights" { // without slurmdbd nothing is allowed
				want[id] = check.Error
			}
			if d := cmp.Diff(want, ids); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestSlurmLines(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"slurm.conf": "# KillWait=1\nKillWait=30 # s\nInclude more.conf\nINCLUDE missing.conf\nPartitionName=gpu Nodes=ALL\nPartitionName=Profile Nodes=n1\ninclude slurm.conf\nnonsense\n",
		"more.conf":  "JobRequeue=0\njobrequeue = 1\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	main, more := filepath.Join(dir, "slurm.conf"), filepath.Join(dir, "more.conf")
	got, err := slurmLines(main)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]check.Line{
		"killwait": {File: main, N: 2, Text: "KillWait=30"}, "jobrequeue": {File: more, N: 2, Text: "jobrequeue = 1"},
		"partitionname=gpu": {File: main, N: 5, Text: "PartitionName=gpu Nodes=ALL"}, "partitionname=profile": {File: main, N: 6, Text: "PartitionName=Profile Nodes=n1"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if _, err := slurmLines(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestDir(t *testing.T) {
	d, err := dir("/proc/self")
	if err != nil || !d.Exists || !d.IsDir {
		t.Errorf("%+v, %v", d, err)
	}
	if d, err = dir(filepath.Join(t.TempDir(), "none")); err != nil || d.Exists {
		t.Errorf("%+v, %v", d, err)
	}
	if d, err = dir("/dev/shm"); err == nil && (d.FS != "tmpfs" || !d.Volatile) {
		t.Errorf("%+v", d)
	}
}
