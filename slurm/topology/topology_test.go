package topology

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       map[string][]string
	}{
		{"nothing", "# only words\n\n", map[string][]string{}},
		{"tree", "SwitchName=s0 Nodes=n[1-2]\nswitchname=s1 nodes=n3 # a comment\nSwitchName=root Switches=s[0-1]\n",
			map[string][]string{"n1": {"s0", "root"}, "n2": {"s0", "root"}, "n3": {"s1", "root"}}},
		{"continued", "SwitchName=s0 \\\n  Nodes=n1,n2\n", map[string][]string{"n1": {"s0"}, "n2": {"s0"}}},
		{"as scontrol shows it", "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n1\nSwitchName=r Level=1 LinkSpeed=1 Nodes= Switches=s0\n", map[string][]string{"n1": {"s0", "r"}}},
		{"block", "BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]\nBlockName=b3 Nodes=n5\nBlockSizes=2,4\n", map[string][]string{
			"n1": {"b1", "b1..b2"}, "n2": {"b1", "b1..b2"}, "n3": {"b2", "b1..b2"}, "n4": {"b2", "b1..b2"}, "n5": {"b3", "b3..b3"}}},
		{"block as scontrol shows it", "BlockName=b1 BlockIndex=0 Nodes=n1 BlockSize=1\n", map[string][]string{"n1": {"b1"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Parse(c.text)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, got.Paths); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestParseFaults(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"no key", "SwitchName=s0 n1", `line 1: "n1" is no key=value`},
		{"unknown key", "\nSwitchName=s0 Node=n1", `line 2: unknown key "Node"`},
		{"nodes of nobody", "Nodes=n1", "line 1: nodes without a SwitchName or BlockName"},
		{"twice", "SwitchName=s0 Nodes=n1\nSwitchName=s0 Nodes=n2", `line 2: "s0" is named twice`},
		{"both kinds", "SwitchName=s0 Nodes=n1\nBlockName=b0 Nodes=n2", "line 2: switches and blocks in one topology"},
		{"unknown switch", "SwitchName=r Switches=s9", `line 1: switch "s9" is not described`},
		{"two parents", "SwitchName=s Nodes=n1\nSwitchName=a Switches=s\nSwitchName=b Switches=s", `line 3: switch "s" is below "a" and "b"`},
		{"circle", "SwitchName=a Switches=b\nSwitchName=b Switches=a", "more than 16 levels, or a circle"},
		{"a node in two places", "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1", `line 2: node "n1" is in "a" and "b"`},
		{"nodes and switches", "SwitchName=a Nodes=n1 Switches=b", `switch "a" has nodes and switches`},
		{"sizes", "BlockSizes=4,2", `"4,2" is no list of rising sizes`},
		{"host list", "SwitchName=a Nodes=n[1", "Nodes: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse(c.text)
			if !errors.Is(err, ErrSyntax) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestOfNode(t *testing.T) {
	for field, want := range map[string][]string{"": nil, "tree": nil, "tree:": nil, "tree:s1": {"s1"}, "tree:s1:root,block:b3": {"s1", "root"},
		strings.Repeat("a:", 100) + "b": nil} {
		if d := cmp.Diff(want, OfNode(field)); d != "" {
			t.Errorf("%.20q: %s", field, d)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("SwitchName=s0 Nodes=n[1-2]\nSwitchName=root Switches=s[0-1]\n")
	f.Add("BlockName=b1 Nodes=n[1-2]\nBlockSizes=2,4\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Parse(text)
		if err != nil && !errors.Is(err, ErrSyntax) {
			t.Errorf("untyped error %v", err)
		}
		for n, path := range got.Paths {
			if len(path) == 0 || len(path) > maxDepth {
				t.Errorf("node %q has a path of %d", n, len(path))
			}
		}
	})
}
