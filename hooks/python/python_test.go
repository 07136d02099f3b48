// Package python_test runs the unit tests of the training helper, so that `go test ./...` covers it too.
package python_test

import (
	"os/exec"
	"testing"
)

func TestHelper(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal("python3 is not installed: the training helper cannot be tested (apt-get install python3)")
	}
	out, err := exec.CommandContext(t.Context(), python, "-m", "unittest", "discover", "-s", ".", "-t", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
