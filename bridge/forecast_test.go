package bridge

import (
	"testing"
	"time"

	"unisched/estimator"
	"unisched/slurm/comment"
)

// The estimate of a job is made anew with each report of a short curve, of a long one only when it has grown by a sixty-fourth; never is it missed that the target is met.
func TestLongCurvesAreFittedSeldom(t *testing.T) {
	b := &Bridge{}
	rec := &Record{}
	rec.Wish.Stop = comment.Stop{Kind: comment.StopMetric, Metric: "acc", Op: comment.AtLeast, Target: 0.9}
	var last estimateInput
	fits := 0
	report := func(iter int64, v float64) bool {
		rec.Curve = append(rec.Curve, estimator.Point{Iter: iter, Value: v})
		in := b.input(time.Time{}, rec)
		anew := in != last
		last = in
		if anew {
			fits++
		}
		return anew
	}
	for i := int64(1); i <= 64; i++ {
		if !report(100*i, 0.5) {
			t.Fatalf("report %d made no fit", i)
		}
	}
	for i := int64(65); i <= 2000; i++ {
		report(100*i, 0.6)
	}
	if fits < 64+150 || fits > 64+230 { // 64 ln(2000/64) = 220
		t.Errorf("2,000 reports made %d fits", fits)
	}
	if !report(200_001, 0.91) {
		t.Error("the report that meets the target made no fit")
	}
}
