// Package examples_test runs the example jobs outside Slurm, so that what the documentation shows keeps working.
package examples_test

import (
	"os/exec"
	"testing"
)

// pythonWithNumpy finds an interpreter for the training example: the first python3 of the path may be one without numpy.
func pythonWithNumpy(t *testing.T) string {
	t.Helper()
	for _, p := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), p, "-c", "import numpy").Run() == nil {
			return p
		}
	}
	t.Fatal("no python3 with numpy found (apt-get install python3-numpy)")
	return ""
}

func TestDigits(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), pythonWithNumpy(t), "-m", "unittest", "discover", "-s", "digits")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
