package gres

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     []Entry
	}{
		{"node", "gpu:v100:8(S:0-1)", []Entry{{Name: "gpu", Type: "v100", Count: 8, Sockets: []int{0, 1}}}},
		{"used", "gpu:v100:4(IDX:0-3)", []Entry{{Name: "gpu", Type: "v100", Count: 4, Indices: []int{0, 1, 2, 3}}}},
		{"used, holes", "gpu:v100:5(IDX:0-1,4-6)", []Entry{{Name: "gpu", Type: "v100", Count: 5, Indices: []int{0, 1, 4, 5, 6}}}},
		{"used, none", "gpu:v100:0(IDX:N/A)", []Entry{{Name: "gpu", Type: "v100"}}},
		{"untyped", "gpu:2", []Entry{{Name: "gpu", Count: 2}}},
		{"no count", "gpu", []Entry{{Name: "gpu", Count: 1}}},
		{"type without count", "gpu:a100", []Entry{{Name: "gpu", Type: "a100", Count: 1}}},
		{"type that begins with a digit", "gpu:3090:2", []Entry{{Name: "gpu", Type: "3090", Count: 2}}},
		{"no_consume", "craynetwork:no_consume:4", []Entry{{Name: "craynetwork", Count: 4}}},
		{"case 17: two kinds", "gpu:a:2(S:0),gpu:b:2(S:1)", []Entry{
			{Name: "gpu", Type: "a", Count: 2, Sockets: []int{0}}, {Name: "gpu", Type: "b", Count: 2, Sockets: []int{1}}}},
		{"case 17: two kinds, lists inside", "gpu:a:2(S:0,2),gpu:b:2(IDX:1,3)", []Entry{
			{Name: "gpu", Type: "a", Count: 2, Sockets: []int{0, 2}}, {Name: "gpu", Type: "b", Count: 2, Indices: []int{1, 3}}}},
		{"case 18: MIG", "gpu:nvidia_h200_nvl_4g.71gb:2", []Entry{{Name: "gpu", Type: "nvidia_h200_nvl_4g.71gb", Count: 2}}},
		{"shards", "gpu:a:1,shard:a:4K(1/4,0/4)", []Entry{{Name: "gpu", Type: "a", Count: 1}, {Name: "shard", Type: "a", Count: 4096}}},
		{"request", "gres/gpu:3", []Entry{{Name: "gpu", Count: 3}}},
		{"request, old form", "gres:gpu:4", []Entry{{Name: "gpu", Count: 4}}},
		{"request, equals", "gres/gpu=1", []Entry{{Name: "gpu", Count: 1}}},
		{"request, typed", "gres/gpu:v100:4", []Entry{{Name: "gpu", Type: "v100", Count: 4}}},
		{"request, typed, equals", "gres/gpu:v100=4", []Entry{{Name: "gpu", Type: "v100", Count: 4}}},
		{"case 20: null type", "gpu:(null):2(IDX:0-1)", []Entry{{Name: "gpu", Count: 2, Indices: []int{0, 1}}}},
		{"case 20: (null)", "(null)", nil},
		{"case 20: empty", "", nil},
		{"case 20: N/A", "N/A", nil},
		{"case 20: null inside a list", "(null),gpu:2", []Entry{{Name: "gpu", Count: 2}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for _, in := range []string{
		"gpu:v100:8(S:0-1", "gpu:v100:8)", "gpu:a:b:3", "gpu:a:99999999999999", "gpu:a:-1", "gpu:(IDX:3-1)",
		"gpu:2(IDX:0-99999)", "gpu:2(IDX:x)", ":3", "g pu:3", "gpu:$(rm):1", strings.Repeat("gpu:1,", 2000), strings.Repeat("a", maxInput+1),
	} {
		if got, err := Parse(in); !errors.Is(err, ErrSyntax) {
			t.Errorf("Parse(%q) = %v, %v", clip(in), got, err)
		}
	}
}

func TestKinds(t *testing.T) {
	type kind struct{ GPU, MIG, Shared bool }
	for in, want := range map[string]kind{
		"gpu:v100:1": {GPU: true}, "gpu:1": {GPU: true}, "gpu:3090:1": {GPU: true},
		"gpu:nvidia_h200_nvl_4g.71gb:2": {MIG: true, Shared: true},
		"gpu:1g.10gb+me:2":              {MIG: true, Shared: true},
		"gpu:1c.3g.20gb:2":              {MIG: true, Shared: true},
		"shard:4":                       {Shared: true}, "mps:100": {Shared: true},
		"gpu:a100_80gb:1": {GPU: true}, "gpu:5g.fast:1": {GPU: true},
	} {
		es, err := Parse(in)
		if err != nil || len(es) != 1 {
			t.Fatal(in, es, err)
		}
		if got := (kind{es[0].GPU(), es[0].MIG(), es[0].Shared()}); got != want {
			t.Errorf("%s: %+v, want %+v", in, got, want)
		}
	}
}

// case 18: the profile's memory figure is the driver's business.
func TestMIGSlices(t *testing.T) {
	for typ, want := range map[string]int{"3g.39gb": 3, "3g.40gb": 3, "nvidia_a100_3g.39gb": 3, "nvidia_h200_nvl_4g.71gb": 4, "1g.5gb": 1, "7g.80gb": 7} {
		if got, ok := MIGSlices(typ); !ok || got != want {
			t.Errorf("%s: %d, %v", typ, got, ok)
		}
	}
	for _, typ := range []string{"", "v100", "a100_40gb", "3g", "3g.gb", "3g.40gbx", "x3g.40gb"} {
		if got, ok := MIGSlices(typ); ok {
			t.Errorf("%q: %d slices", typ, got)
		}
	}
}

func TestParseTRES(t *testing.T) {
	v4 := []TypeCount{{"v100", 4}}
	for _, tt := range []struct {
		name, in string
		want     TRES
	}{
		{"as written", "cpu=1,mem=62.50G,node=1,billing=1,gres/gpu=4,gres/gpu:v100=4",
			TRES{CPUs: 1, MemMB: 64000, Nodes: 1, Billing: 1, GPUs: 4, ByType: v4}},
		{"case 15: typed only", "gres/gpu:x=1", TRES{GPUs: 1, ByType: []TypeCount{{"x", 1}}}},
		{"case 15: both are the same GPUs", "gres/gpu=2,gres/gpu:x=2", TRES{GPUs: 2, ByType: []TypeCount{{"x", 2}}}},
		{"case 15: order swapped", "gres/gpu:x=2,gres/gpu=2", TRES{GPUs: 2, ByType: []TypeCount{{"x", 2}}}},
		{"case 15: two types", "gres/gpu=3,gres/gpu:y=1,gres/gpu:x=2", TRES{GPUs: 3, ByType: []TypeCount{{"x", 2}, {"y", 1}}}},
		{"case 20: (null)", "(null)", TRES{}},
		{"other kinds", "cpu=1,energy=0,license/x=1,gres/gpumem=5,gres/gpuutil=3", TRES{CPUs: 1}},
		{"shards", "gres/gpu=1,gres/shard=4", TRES{GPUs: 1, Shared: true}},
		{"MIG", "gres/gpu=2,gres/gpu:nvidia_h200_nvl_4g.71gb=2", TRES{GPUs: 2, Shared: true}},
		{"fractional billing", "billing=6.5", TRES{Billing: 7}},
		{"big memory", "mem=1.5T,cpu=2K", TRES{MemMB: 1572864, CPUs: 2048}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseTRES(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
	for _, in := range []string{"cpu", "cpu=", "cpu=x", "mem=G", "mem=NaN", "mem=1e400", "gres/gpu=-1", "gres/gpu:x=1.5", "=1", "mem=9999999P"} {
		if got, err := ParseTRES(in); !errors.Is(err, ErrSyntax) {
			t.Errorf("ParseTRES(%q) = %+v, %v", in, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"gpu:v100:8(S:0-1)", "gpu:a:2(S:0),gpu:b:2(S:1)", "(null)", "gres/gpu=1", "shard:4(1/2)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		es, err := Parse(s)
		for _, e := range es {
			if e.Count < 0 || e.Name == "" || err != nil {
				t.Fatalf("%+v, %v", e, err)
			}
		}
	})
}

func FuzzParseTRES(f *testing.F) {
	f.Add("cpu=1,mem=62.50G,node=1,billing=1,gres/gpu=4,gres/gpu:v100=4")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseTRES(s)
		if got.GPUs < 0 || got.MemMB < 0 || got.CPUs < 0 || err != nil && !errors.Is(err, ErrSyntax) {
			t.Fatalf("%+v, %v", got, err)
		}
	})
}
