package hostlist

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestExpand(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     []string
	}{
		{"empty", "", nil},
		{"case 20: null word", "(null)", nil},
		{"no nodes yet", "None assigned", nil},
		{"one name", "n1", []string{"n1"}},
		{"case 22: hyphen before the bracket, padded", "b04-[09-10]", []string{"b04-09", "b04-10"}},
		{"case 22: mixed list", "na,nb[001,003],nc", []string{"na", "nb001", "nb003", "nc"}},
		{"case 22: several lists of one stem", "f003,f0[10-20],f[10,12-14],f-m11-16",
			[]string{"f003", "f010", "f011", "f012", "f013", "f014", "f015", "f016", "f017", "f018", "f019", "f020", "f10", "f12", "f13", "f14", "f-m11-16"}},
		{"case 22: suffix and falling order", "b2u[05,02]n3", []string{"b2u05n3", "b2u02n3"}},
		{"case 22: several brackets", "r[1-2]n[08-09]x", []string{"r1n08x", "r1n09x", "r2n08x", "r2n09x"}},
		{"case 22: adjacent brackets", "n[1-2][0,5]", []string{"n10", "n15", "n20", "n25"}},
		{"width grows out of the padding", "n[098-101]", []string{"n098", "n099", "n100", "n101"}},
		{"unpadded width grows", "n[9-10]", []string{"n9", "n10"}},
		{"bracket first", "[1-2]a", []string{"1a", "2a"}},
		{"doubles of an arbitrary layout stay", "n3,n3,n4", []string{"n3", "n3", "n4"}},
		{"dots", "a.b-c_d[1]", []string{"a.b-c_d1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Expand(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestExpandRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     error
	}{
		{"case 22: trailing comma in brackets", "n[1,]", ErrSyntax},
		{"case 22: falling range", "n[3-1]", ErrSyntax},
		{"case 22: open bracket", "n[1", ErrSyntax},
		{"case 22: huge range", "n[0-999999999]", ErrTooMany},
		{"huge product", "n[0-999][0-999]", ErrTooMany},
		{"huge sum", strings.Repeat("n[0-9999],", 8) + "n", ErrTooMany},
		{"overflowing product", strings.Repeat("[0-9999]", 40), ErrTooMany},
		{"trailing comma", "n1,", ErrSyntax},
		{"leading comma", ",n1", ErrSyntax},
		{"empty bracket", "n[]", ErrSyntax},
		{"nested bracket", "n[1-[2]]", ErrSyntax},
		{"stray close", "n1]", ErrSyntax},
		{"letters in range", "n[a-c]", ErrSyntax},
		{"signed", "n[-1]", ErrSyntax},
		{"three bounds", "n[1-2-3]", ErrSyntax},
		{"too many digits", "n[0000000000000000001]", ErrSyntax},
		{"shell text", "n1;rm", ErrSyntax},
		{"space", "n1 n2", ErrSyntax},
		{"slash", "../n1", ErrSyntax},
		{"long name", strings.Repeat("a", 300), ErrSyntax},
		{"long product name", strings.Repeat("a", 250) + "[100000-100001]", ErrSyntax},
		{"too long", strings.Repeat("a", MaxInput+1), ErrTooMany},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Expand(tt.in)
			if !errors.Is(err, tt.want) || got != nil {
				t.Errorf("got %d names, error %v, want %v", len(got), err, tt.want)
			}
		})
	}
}

func TestExpandUpToTheLimit(t *testing.T) {
	got, err := Expand("n[0-65535]")
	if err != nil || len(got) != MaxNames || got[MaxNames-1] != "n65535" {
		t.Errorf("got %d names, error %v", len(got), err)
	}
}

func TestCompress(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		in         []string
	}{
		{"none", "", nil},
		{"one", "n7", []string{"n7"}},
		{"range", "n[1-3]", []string{"n1", "n2", "n3"}},
		{"padded", "n[08-11,13]", []string{"n08", "n09", "n10", "n11", "n13"}},
		{"mixed width is not one range", "n[9-10,011]", []string{"n9", "n10", "n011"}},
		{"other stems", "a,n[1-2],b", []string{"a", "n1", "n2", "b"}},
		{"order kept", "n[3,1]", []string{"n3", "n1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Compress(tt.in); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestValidName(t *testing.T) {
	for name, want := range map[string]bool{"n1": true, "a.b": true, "": false, "-n": false, "..": false, "n/1": false, "n[1]": false, "n,m": false} {
		if got := ValidName(name); got != want {
			t.Errorf("ValidName(%q) = %v", name, got)
		}
	}
}

func TestCompressThenExpandIsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
			stem := rapid.SampledFrom([]string{"n", "f0", "b-", "x9y"}).Draw(t, "stem")
			width := rapid.IntRange(0, 4).Draw(t, "width")
			return stem + fmt.Sprintf("%0*d", width, rapid.IntRange(0, 120).Draw(t, "number"))
		}), 1, 40).Draw(t, "names")
		got, err := Expand(Compress(names))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(names, got); d != "" {
			t.Fatal(d)
		}
	})
}

func FuzzExpand(f *testing.F) {
	for _, s := range []string{"n[1-3]", "b04-[09-10]", "r[1-2]n[08-09]x", "n[0-999999999]", "n[1,]", "[", "(null)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		names, err := Expand(s)
		if err != nil {
			return
		}
		if len(names) > MaxNames {
			t.Fatalf("%d names", len(names))
		}
		again, err := Expand(Compress(names))
		if err != nil {
			t.Fatalf("compressed form: %v", err)
		}
		if d := cmp.Diff(names, again); d != "" {
			t.Fatal(d)
		}
	})
}
