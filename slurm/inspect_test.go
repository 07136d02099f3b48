package slurm

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// recorded is a real answer, of contrib/testcluster.
func recorded(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestInspect reads the real answers of both releases.
func TestInspect(t *testing.T) {
	for _, tt := range []struct {
		release, api string
		surface      Surface
	}{
		{"24.11", "v0.0.42", Surface{Versions: []string{"v0.0.40", "v0.0.41", "v0.0.42"}}},
		{"26.05", "v0.0.45", Surface{Versions: []string{"v0.0.42", "v0.0.43", "v0.0.44", "v0.0.45"}, Requeue: true, Conf: true}},
	} {
		t.Run(tt.release, func(t *testing.T) {
			slurmd := tt.release + ".5"
			get := func(name string) reply { return reply{200, recorded(t, tt.release+"."+name+".json")} }
			s := newServer(t, map[string]reply{
				"GET /openapi/v3": get("openapi"), "GET /slurm/" + tt.api + "/diag/": get("diag"), "GET /slurm/" + tt.api + "/nodes/": get("nodes"),
				"GET /slurmdb/" + tt.api + "/user/unisched": get("user"), "GET /slurmdb/" + tt.api + "/user/nobody": get("user_none"),
				"GET /slurmdb/" + tt.api + "/user/down":   {502, recorded(t, tt.release+".user_dbdown.json")},
				"GET /slurmdb/" + tt.api + "/qos/profile": get("qos"), "GET /slurmdb/" + tt.api + "/qos/none": get("qos_none"),
				"GET /slurmdb/" + tt.api + "/qos/": get("qos_typed"), "GET /slurmdb/" + tt.api + "/associations/": get("associations"),
			})
			c := newClient(t, Options{URL: s.URL, Version: tt.api})
			ctx := t.Context()
			if got, err := c.Surface(ctx); err != nil || !cmp.Equal(tt.surface, got) {
				t.Errorf("surface %+v, %v", got, err)
			}
			if got, err := c.Clock(ctx); err != nil || got.Unix() < 1795971800 || got.Unix() > 1795999999 {
				t.Errorf("clock %v, %v", got, err)
			}
			if got, err := c.Rights(ctx, "unisched"); err != nil || got != (Rights{true, "Operator"}) {
				t.Errorf("rights %+v, %v", got, err)
			}
			if got, err := c.Rights(ctx, "nobody"); err != nil || got != (Rights{}) {
				t.Errorf("rights of nobody %+v, %v", got, err)
			}
			if got, err := c.Rights(ctx, "down"); err == nil || got.Known {
				t.Errorf("rights without slurmdbd %+v, %v", got, err)
			}
			if got, err := c.QOS(ctx, "profile"); err != nil || got != (QOS{true, 2}) {
				t.Errorf("qos %+v, %v", got, err)
			}
			if got, err := c.QOS(ctx, "none"); err != nil || got != (QOS{false, -1}) {
				t.Errorf("qos none %+v, %v", got, err)
			}
			caps := []GPUCap{{"QOS profile", "GrpTRES", "v100", 7}, {"QOS profile", "MaxTRESPerJob", "v100", 1}, {"QOS profile", "MaxTRESPerUser", "v100", 3}, {"user alice of account lab", "GrpTRES", "v100", 2}}
			if got, err := c.GPUCaps(ctx); err != nil || !slices.Equal(caps, got) {
				t.Errorf("caps %+v, %v", got, err)
			}
			want := []Slurmd{{"n1", slurmd, "gpu:v100:4(S:0-1)", "gpu:v100:0(IDX:N/A)"}, {"n2", slurmd, "gpu:v100:4(S:0-1)", "gpu:v100:0(IDX:N/A)"}}
			if got, err := c.Slurmds(ctx); err != nil || !slices.Equal(want, got) {
				t.Errorf("slurmds %+v, %v", got, err)
			}
		})
	}
}

// TestConfigSources: REST and scontrol say the same of what is looked at.
func TestConfigSources(t *testing.T) {
	s := newServer(t, map[string]reply{"GET /slurm/v0.0.45/conf/": {200, recorded(t, "26.05.conf.json")}})
	rest, err := newClient(t, Options{URL: s.URL}).Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	text, err := filepath.Abs("testdata/26.05.config.txt")
	if err != nil {
		t.Fatal(err)
	}
	older := newServer(t, nil)
	printed, err := newClient(t, Options{URL: older.URL, Scontrol: Scontrol{Argv: []string{"/bin/sh", "-c", `cat "$0"; test "$*" = "show config"`, text}}}).Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"JobRequeue", "RequeueExit", "RequeueExitHold", "AuthInfo", "AuthAltTypes", "AuthAltParameters", "AccountingStorageTRES",
		"AccountingStorageType", "AccountingStorageEnforce", "GresTypes", "SelectType", "SchedulerType", "PriorityType", "SchedulerParameters", "PreemptType",
		"PrivateData", "JobSubmitPlugins", "SlurmctldParameters", "Prolog", "TaskProlog", "ClusterName", "SLURM_CONF", "SLURM_VERSION"} {
		if rest.Text(key) != printed.Text(key) {
			t.Errorf("%s: REST %q, scontrol %q", key, rest.Text(key), printed.Text(key))
		}
	}
	for _, key := range []string{"MinJobAge", "MaxJobCount", "KillWait", "SlurmdTimeout", "JobRequeue"} {
		a, okA := rest.Number(key)
		b, okB := printed.Number(key)
		if a != b || !okA || !okB {
			t.Errorf("%s: REST %d, scontrol %d", key, a, b)
		}
	}
	if rest.Source != "GET /slurm/v0.0.45/conf" || printed.Source != "scontrol show config" {
		t.Errorf("sources %q, %q", rest.Source, printed.Source)
	}
}

func TestConfigRefused(t *testing.T) {
	s := newServer(t, map[string]reply{"GET /slurm/v0.0.45/conf/": {511, `{"errors":[{"error_number":1007,"error":"Protocol authentication error"}]}`}})
	if _, err := newClient(t, Options{URL: s.URL}).Config(t.Context()); !errors.Is(err, ErrUnauthorised) {
		t.Errorf("refused token: %v", err)
	}
	if _, err := newClient(t, Options{URL: newServer(t, nil).URL}).Config(t.Context()); !errors.Is(err, ErrNeedsScontrol) {
		t.Errorf("older server without scontrol: %v", err)
	}
	_, err := newClient(t, Options{URL: newServer(t, nil).URL, Scontrol: Scontrol{Argv: []string{"/nonexistent/scontrol"}}}).Config(t.Context())
	if !errors.Is(err, ErrUnavailable) {
		t.Errorf("scontrol that is not there: %v", err)
	}
}

func TestParseConfig(t *testing.T) {
	c := ParseConfig("x", "Configuration data as of now\nProlog[0] = /a\nProlog[1]=/b\nKillWait   = 10 sec\nAuthInfo = (null)\n# no=1\na b = 2\nEmpty=\nNone\n")
	got := map[string]string{"Prolog": c.Text("prolog"), "KillWait": c.Text("KILLWAIT"), "AuthInfo": c.Text("AuthInfo"), "no": c.Text("no"), "Empty": c.Text("empty")}
	if d := cmp.Diff(map[string]string{"Prolog": "/a,/b", "KillWait": "10 sec", "AuthInfo": "", "no": "", "Empty": ""}, got); d != "" {
		t.Error(d)
	}
	if !c.Known("AuthInfo") || c.Known("Missing") || !c.Has("Prolog", "/B") || c.Has("Prolog", "/") {
		t.Error("Known or Has is wrong")
	}
	if n, ok := c.Number("KillWait"); n != 10 || !ok {
		t.Errorf("KillWait %d %v", n, ok)
	}
}

func TestReadToken(t *testing.T) {
	jwt := func(claims string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
	}
	for _, tt := range []struct {
		name, text string
		want       Token
		err        error
	}{
		{"Slurm's own", "SLURM_JWT=" + jwt(`{"exp":1795973000,"iat":1795971200,"sun":"unisched"}`) + "\n",
			Token{"unisched", time.Unix(1795971200, 0).UTC(), time.Unix(1795973000, 0).UTC()}, nil},
		{"another issuer's", jwt(`{"username":"u","exp":1795973000}`), Token{User: "u", Expires: time.Unix(1795973000, 0).UTC()}, nil},
		{"no end", jwt(`{"sun":"u"}`), Token{User: "u"}, nil},
		{"not a JWT", "abc", Token{}, ErrOpaque},
		{"not base64", "a.%%%.b", Token{}, ErrOpaque},
		{"not JSON", "a." + base64.RawURLEncoding.EncodeToString([]byte("x")) + ".b", Token{}, ErrOpaque},
		{"odd claims", jwt(`{"sun":5}`), Token{}, ErrOpaque},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := ReadToken(path)
			if !errors.Is(err, tt.err) || !got.Issued.Equal(tt.want.Issued) || !got.Expires.Equal(tt.want.Expires) || got.User != tt.want.User {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	if _, err := ReadToken(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}
