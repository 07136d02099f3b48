package main

import (
	"testing"
	"time"

	"unisched/slurm/comment"
)

// TestAdvice: an elastic job whose iterations more GPUs do not shorten is told so.
func TestAdvice(t *testing.T) {
	for text, want := range map[string]bool{
		"unisched:gpus=1-8,stop=iters:5000": true, "unisched:gpus=1-8,stop=iters:5000,batch=global": false, "unisched:gpus=8,stop=iters:5000": false,
		"unisched:gpus=1-8": false, "unisched:gpus=1-8,stop=metric:acc>=0.9,max=100": false,
	} {
		w, err := comment.Parse(text, comment.Context{Now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), Zone: time.UTC})
		if err != nil {
			t.Fatal(err)
		}
		if got := advice(w) != ""; got != want {
			t.Errorf("%s: advice %v, want %v", text, got, want)
		}
	}
}
