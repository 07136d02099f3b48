package policy

import (
	"cmp"
	"time"
)

// newSlackSRSF makes slack-guarded SRSF: the same as slack with remaining service and a guard of 10 min.
func newSlackSRSF(o Options) Policy {
	return guarded("slacksrsf", o, cmp.Or(max(0, o.Guard), 10*time.Minute), (*job).service)
}
