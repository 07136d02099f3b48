package main

import (
	"strings"
	"testing"
)

// The page has every command that people see, and nothing in it is taken for a request of the formatter.
func TestManPage(t *testing.T) {
	root := testApp().root()
	root.Long = "First.\n.so /etc/passwd\n\n'Third' \\fB-x"
	var b strings.Builder
	if err := manPage(&b, root, "1.2-3"); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, want := range []string{".SH NAME\nunisched \\- deadline\\-aware", ".SS unisched check [flags]\n", ".SS unisched config validate [FILE]", "\\-\\-fix\\-snippets FILE\n",
		"First.\n\\&.so /etc/passwd\n.PP\n\\&'Third' \\efB\\-x\n", "\"1.2\\-3\"", "For example:\n.nf\nunisched lint 'unisched:", "\nunisched lint \\-\\-file train.sh\n.fi\n"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, ".SS unisched man") {
		t.Error("a hidden command is shown")
	}
}
