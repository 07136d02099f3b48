package lease

import (
	"fmt"

	"unisched/planner"
)

// Quotas bound the GPUs that an account's jobs hold at once. In the model each is one row for this unit (SLO leases reach into the next one, but only
// jobs that run now hold GPUs then) and prefix rows like those of a pool, so that no deadline is counted on that the quota would lose.

// quotaHeld is what a column holds of its account's quota in this unit.
func (j *job) quotaHeld(c *column) int {
	switch {
	case j.quota < 0:
		return 0
	case c.kind == keep:
		return j.curr.gpus
	case c.kind == start:
		return c.gpus
	}
	return 0
}

// quotaDemand is the coefficient of a column in the account's prefix row tau.
func (in *instance) quotaDemand(j *job, c *column, tau float64) float64 {
	if j.quota < 0 {
		return 0
	}
	return in.demand(*c, tau)
}

// quotaCap is the work that quota q lets be done until tau, margins as for pools.
func (in *instance) quotaCap(q int, tau float64) float64 {
	return in.cfg.Rho * float64(in.quotas[q].Room) * (tau - float64(in.lead))
}

// accountBook keeps the rows of the quotas for one choice of columns.
type accountBook struct {
	use  []int
	pre  [][]float64 // by quota and tau
	pcap [][]float64
}

func newAccountBook(in *instance) accountBook {
	b := accountBook{use: make([]int, len(in.quotas))}
	for q := range in.quotas {
		caps := make([]float64, len(in.taus))
		for k, tau := range in.taus {
			caps[k] = in.quotaCap(q, tau)
		}
		b.pre, b.pcap = append(b.pre, make([]float64, len(in.taus))), append(b.pcap, caps)
	}
	return b
}

// lift raises bounds to what the base choice claims: what nobody can change breaks no row.
func (b *accountBook) lift() {
	for q := range b.pcap {
		for k := range b.pcap[q] {
			b.pcap[q][k] = max(b.pcap[q][k], b.pre[q][k])
		}
	}
}

func (b *accountBook) add(in *instance, j *job, c *column, sign int) {
	if j.quota < 0 {
		return
	}
	b.use[j.quota] += sign * j.quotaHeld(c)
	if c.tier >= 0 || c.holds {
		for k, tau := range in.taus {
			b.pre[j.quota][k] += float64(sign) * in.quotaDemand(j, c, tau)
		}
	}
}

func (b *accountBook) holds(in *instance) bool {
	const tol = 1e-9
	for q := range b.use {
		if b.use[q] > in.quotas[q].Room {
			return false
		}
		for k := range b.pre[q] {
			if b.pre[q][k] > b.pcap[q][k]+tol {
				return false
			}
		}
	}
	return true
}

// broken names the rows that do not hold.
func (b *accountBook) broken(in *instance) []string {
	var out []string
	for q := range b.use {
		a := in.quotas[q]
		if d := b.use[q] - a.Room; d > 0 {
			out = append(out, fmt.Sprintf("%d fewer GPUs held by account %s, which may hold %d", d, a.Account, a.Max))
		}
		for k, tau := range in.taus {
			if d := b.pre[q][k] - b.pcap[q][k]; d > 1e-9 {
				out = append(out, fmt.Sprintf("%.1f fewer GPU-units of work due within %.0f units in account %s, which may hold %d GPUs", d, tau, a.Account, a.Max))
				break // later rows say the same
			}
		}
	}
	return out
}

// quotaRows bound what accounts hold now and what is due of them.
func (pr *program) quotaRows() {
	in := pr.in
	fixed := func(coef func(j *job, c *column) float64) float64 {
		sum := 0.0
		for ji := range in.jobs {
			if j := &in.jobs[ji]; pr.first[ji] < 0 {
				sum += coef(j, &j.cols[j.base]) // the one column it has left
			}
		}
		return sum
	}
	for q, a := range in.quotas {
		held := func(j *job, c *column) float64 {
			if j.quota != q {
				return 0
			}
			return float64(j.quotaHeld(c))
		}
		pr.sumRow(float64(a.Room)-fixed(held), held)
		for k, tau := range in.taus {
			due := func(j *job, c *column) float64 {
				if j.quota != q {
					return 0
				}
				return in.quotaDemand(j, c, tau)
			}
			pr.sumRow(pr.base.accounts.pcap[q][k]-fixed(due), due)
		}
	}
}

// within reports whether the job's account may hold so many GPUs more.
func (f *floor) within(j *job, gpus int) bool {
	return j.quota < 0 || f.quota[j.quota] >= gpus
}

// obeyQuotas takes starts back until no account holds more than it may: only jobs that the preemption budget put back can have broken a quota.
func (r *packed) obeyQuotas(in *instance) {
	if len(in.quotas) == 0 {
		return
	}
	order := r.byGain(in, func(j *job) bool { return j.quota >= 0 })
	for k := len(order) - 1; k >= 0; k-- { // least first
		ji := order[k]
		j := &in.jobs[ji]
		if r.floor.quota[j.quota] >= 0 || in.jobs[ji].cols[r.choice[ji]].kind != start || j.State != planner.Waiting {
			continue
		}
		r.floor.take(j, r.places[ji], -1)
		r.demote(in, ji)
	}
}

// quotaWhy says that a waiting job's account is what it waits for, or nothing.
func (in *instance) quotaWhy(j *job, r packed, least int) (planner.Reason, bool) {
	if r.floor.within(j, least) {
		return planner.Reason{}, false
	}
	a := in.quotas[j.quota]
	return planner.Reason{Code: planner.ReasonQuota,
		Text: fmt.Sprintf("account %s may hold %d GPUs at once, %d of them are left", a.Account, a.Max, max(0, r.floor.quota[j.quota]))}, true
}
