package bridge_test

import (
	"testing"
	"time"

	"unisched/slurm/slurmsim"
)

// GPUs that a plain job gives back are given out before the next unit boundary.
func TestScenarioPlainEndBringsARound(t *testing.T) {
	w := newWorld(t, site{nodes: 1, gpus: 4})
	w.submit("plain", slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: training(400), TimeLimit: 30 * time.Minute, User: "eve", UID: 1003})
	w.until(5*time.Minute, "the plain job runs", func() bool { return w.running("plain") })
	w.submit("ours", slurmsim.Submission{GPUsPerNode: 4, Nodes: 1, Body: training(100), TimeLimit: 10 * time.Minute,
		Comment: "unisched:ckpt=B:USR1,profile=skip,stop=iters:100"})
	w.until(20*time.Minute, "the plain job ends", w.finished("plain"))
	freed := w.job("plain").End
	w.until(20*time.Minute, "ours runs", func() bool { return w.running("ours") })
	if late := w.job("ours").Start.Sub(freed); late > time.Minute {
		t.Errorf("ours started %v after the GPUs came free, in a unit of 5 minutes", late)
	}
}
