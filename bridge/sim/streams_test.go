package sim

import (
	"fmt"
	"testing"
	"time"

	"unisched/bridge/sim/trace"
)

// Eight jobs that give way to a wide one write their checkpoints at once and read them again at once: on storage that serves one at full speed both take longer,
// and everybody is done later.
func TestStorageStreams(t *testing.T) {
	jobs := []trace.Job{}
	for i := range 8 {
		j := job(fmt.Sprint("long", i), 1, 0, 4*time.Hour)
		j.Checkpoint, j.Resume = 10*time.Second, 40*time.Second
		jobs = append(jobs, j)
	}
	jobs = append(jobs, job("wide", 8, 30*time.Minute, 5*time.Minute))
	figures := func(streams int) Figures {
		return play(t, Config{Nodes: 2, GPUsPerNode: 4, Oracle: true, Streams: streams}, rival(t, "srsf"), jobs...).Figures
	}
	free, shared := figures(0), figures(1)
	if free.Preemptions != 8 || shared.Preemptions != 8 {
		t.Fatalf("%d and %d preemptions, want 8", free.Preemptions, shared.Preemptions)
	}
	// Eight at once share the bandwidth of one: each takes eight times as long.
	if free.SavingGPU != 80 || shared.SavingGPU != 640 {
		t.Errorf("checkpoints took %v and %v GPU-seconds, want 80 and 640", free.SavingGPU, shared.SavingGPU)
	}
	if shared.LoadingGPU < 2*free.LoadingGPU || *shared.JCTMean <= *free.JCTMean {
		t.Errorf("resumes took %v and %v GPU-seconds, mean JCT %v and %v s", free.LoadingGPU, shared.LoadingGPU, *free.JCTMean, *shared.JCTMean)
	}
}
