package policy

// The rewards of TetriSched and 3Sigma as their experiments set them: 1000 for a deadline met, 25/(minutes until the end) for best effort.
const (
	aheadSLO = 1000
	aheadBE  = 25
)

// newTetriSched makes TetriSched (Tumanov et al., EuroSys 2016): every round a mixed-integer program over the waiting jobs and the starts within
// a plan-ahead window of 900 s, without preemption. A job whose deadlines are all lost is worth what best effort is.
func newTetriSched(o Options) Policy {
	return &ahead{name: "tetrisched", o: o, stoppable: func(*job) bool { return false }, value: func(r *round, j *job, wait float64) float64 {
		end := wait + j.left
		if j.alive() {
			for _, t := range j.Tiers[j.tier:] {
				if t.Value > 0 && t.At.Sub(r.s.Now).Seconds() >= end {
					return aheadSLO * t.Value / 100
				}
			}
		}
		return sooner(end)
	}}
}

// sooner is what ending in so many seconds is worth to a job without deadlines.
func sooner(end float64) float64 { return aheadBE / max(end/60, 1) }
