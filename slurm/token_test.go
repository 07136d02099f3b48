package slurm

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTokenExpiry(t *testing.T) {
	jwt := func(claims string) string {
		return "eyJhbGciOiJIUzI1NiJ9." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2lnbmF0dXJl"
	}
	for _, tt := range []struct {
		name, text string
		want       int64 // Unix seconds, 0: none
		says       string
	}{
		{name: "as scontrol prints it", text: "SLURM_JWT=" + jwt(`{"exp":1764590400,"iat":1764583200,"sun":"unisched"}`) + "\n", want: 1764590400},
		{name: "fraction", text: jwt(`{"exp":1764590400.9}`), want: 1764590400},
		{name: "no claim", text: jwt(`{"sun":"unisched"}`)},
		{name: "not a JWT", text: "secret", says: "does not hold a JWT"},
		{name: "not base64", text: "a.%%.c", says: "not base64"},
		{name: "not JSON", text: jwt("secret"), says: "not understood"},
		{name: "text for a number", text: jwt(`{"exp":"secret"}`), says: "not understood"},
		{name: "negative", text: jwt(`{"exp":-1}`), says: "not understood"},
		{name: "beyond all calendars", text: jwt(`{"exp":1e300}`), says: "not understood"},
		{name: "empty", text: "", says: "is empty"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := TokenExpiry(path)
			switch {
			case (err != nil) != (tt.says != "") || err != nil && !strings.Contains(err.Error(), tt.says):
				t.Errorf("error %v", err)
			case err != nil && strings.Contains(err.Error(), "secret"):
				t.Errorf("the error shows the token: %v", err)
			case tt.want == 0 && !got.IsZero(), tt.want != 0 && !got.Equal(time.Unix(tt.want, 0)):
				t.Errorf("%v", got)
			}
		})
	}
	if _, err := TokenExpiry(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing file has an expiry")
	}
}

// Each request is told once, with its kind and the status that it got.
func TestBegin(t *testing.T) {
	s := newServer(t, map[string]reply{
		"GET /slurm/v0.0.42/jobs/":    {200, `{"jobs":[],` + lists + `}`},
		"GET /slurm/v0.0.42/job/7":    {500, `{}`},
		"POST /slurm/v0.0.42/job/7":   {200, `{` + meta + `,"errors":[]}`},
		"DELETE /slurm/v0.0.42/job/7": {302, ``},
	})
	var told []string
	open := 0
	c := newClient(t, Options{URL: s.URL, Version: "v0.0.42", Begin: func(k RequestKind) func(int) {
		open++
		return func(status int) { open--; told = append(told, fmt.Sprint(k, " ", status)) }
	}})
	_, _ = c.Ping(t.Context())
	_, _, _ = c.jobs(t.Context(), tally{}, time.Time{})
	_, _ = c.Job(t.Context(), 7)
	_ = c.Update(t.Context(), Ref{ID: 7}, Update{Hold: Some(true)})
	_ = c.Signal(t.Context(), Ref{ID: 7}, Signal{Name: "USR1"})
	s.Close()
	_, _ = c.Job(t.Context(), 7)
	want := []string{"ping 200", "list 200", "read 500", "write 200", "write 302", "read 0"}
	if d := cmp.Diff(want, told); d != "" || open != 0 {
		t.Errorf("%s, %d not ended", d, open)
	}
}
