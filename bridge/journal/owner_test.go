package journal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The lock says who holds it, and its holder notices when somebody else does by now.
func TestHeld(t *testing.T) {
	dir := t.TempDir()
	if got := Owner(dir); got != "another instance" {
		t.Errorf("owner of nothing: %q", got)
	}
	j, _, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if got := Owner(dir); !strings.Contains(got, "process ") || !strings.HasPrefix(got, "instance "+j.id) {
		t.Errorf("owner %q", got)
	}
	if _, _, err := Open(dir); !errors.Is(err, ErrLocked) || !strings.Contains(Owner(dir), j.id) {
		t.Errorf("a second one: %v, owner %q", err, Owner(dir))
	}
	if err := j.Held(); err != nil {
		t.Error(err)
	}
	lock := filepath.Join(dir, lockName)
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	if err := j.Held(); err != nil || !strings.Contains(Owner(dir), j.id) {
		t.Errorf("a removed lock is made again: %v, owner %q", err, Owner(dir))
	}
	// The same file, signed by another host, whose lock this kernel does not see.
	if err := os.WriteFile(lock, []byte("instance 0123456789abcdef, process 7 on other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := j.Held(); !errors.Is(err, ErrLocked) {
		t.Errorf("signed by another: %v", err)
	}
	if err := j.Compact(nil); !errors.Is(err, ErrLocked) {
		t.Errorf("written anew, though signed by another: %v", err)
	}
	// A lock that could not be signed is judged by the file alone.
	j.id = ""
	if err := j.Held(); err != nil {
		t.Error(err)
	}
}
