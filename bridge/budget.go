package bridge

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"unisched/slurm/comment"
)

// Reservation is what a job with deadlines declared at admission: its GPUs for its time limit. It is the declaration that is charged, not what is used
// in the end: a budget that shrank with use would pay for asking for too much.
type Reservation struct {
	Account  string    `json:"account"`
	At       time.Time `json:"at"`
	GPUHours float64   `json:"gpu_hours"`
	// Charged says that it counts against the account's budget: of strict jobs that the stage lets us act on, unless they end without having run.
	Charged bool `json:"charged,omitempty"`
}

// charge is what an account reserved about an instant, of jobs whose records are gone.
type charge struct {
	At       time.Time `json:"at"`
	GPUHours float64   `json:"gpu_hours"`
}

// Budget is how an account stands, for people.
type Budget struct {
	Account  string  `json:"account"`
	Reserved float64 `json:"reserved_gpu_hours"` // within the window
	Limit    float64 `json:"limit_gpu_hours"`    // 0: none
	WindowS  float64 `json:"window_s"`
}

// budgetOf is what the strict jobs of an account may reserve, 0 for no bound.
func (c Config) budgetOf(account string) float64 {
	if g := c.Accounts[account].StrictGPUHours; g > 0 {
		return g
	}
	return c.Admission.StrictGPUHours
}

// declared is what a job would reserve: its GPUs, and for how long.
func (r *Record) declared() (gpuHours float64, ran time.Duration) {
	ran = r.Original.TimeLimit
	if n := len(r.Wish.Tiers); ran <= 0 && n > 0 { // unlimited: until its last deadline, it may be presumed
		ran = r.Wish.Tiers[n-1].At.Sub(r.FirstSubmit)
	}
	ran = max(ran, 0)
	return float64(r.Original.GPUs) * ran.Hours(), ran
}

// tooLarge says why a job is more than one job may reserve under deadlines, "" when it is not.
func (a Admission) tooLarge(rec *Record) string {
	hours, ran := rec.declared()
	if a.JobGPUHours <= 0 || hours <= a.JobGPUHours {
		return ""
	}
	return fmt.Sprintf("it asks for %.1f GPU-hours (%d GPUs for %s), and a job with deadlines may reserve %.1f here", hours, rec.Original.GPUs, Span(ran), a.JobGPUHours)
}

// reserve notes what the job declares, and charges its account for it when it is strict, or demotes it when the account has no more.
func (b *Bridge) reserve(now time.Time, rec *Record) {
	hours, ran := rec.declared()
	rec.Reserved = Reservation{Account: rec.Account, At: now, GPUHours: hours}
	if rec.Wish.Class != comment.Strict || !b.stageActs(rec.Original.Partition, comment.Strict) {
		return
	}
	if limit := b.cfg.budgetOf(rec.Account); limit > 0 {
		if spent := b.spent(now)[rec.Account]; spent+rec.Reserved.GPUHours > limit {
			b.demote(now, rec, OverBudget, fmt.Sprintf("it asks for %.1f GPU-hours (%d GPUs for %s), and account %s has reserved %.1f of its %.1f in %s",
				rec.Reserved.GPUHours, rec.Original.GPUs, Span(ran), rec.Account, spent, limit, Span(b.cfg.Admission.BudgetWindow)))
			return
		}
	}
	rec.Reserved.Charged = true
	b.spentIn = -1
}

// refund takes the charge of a job back that has ended, or was given back, without ever having run as far as Slurm showed.
func (b *Bridge) refund(now time.Time, rec *Record) {
	if !rec.Reserved.Charged || rec.Started || rec.GPUSeconds > 0 || rec.Exit == endUnseen {
		return
	}
	rec.Reserved.Charged, b.spentIn = false, -1
	rec.note(now, "refunded", fmt.Sprintf("it never ran: %.1f GPU-hours go back to account %s", rec.Reserved.GPUHours, rec.Reserved.Account))
}

// spent sums up, by account, what counts against budgets now. It rests on the records and, for jobs whose records are gone, on what was carried over.
func (b *Bridge) spent(now time.Time) map[string]float64 {
	if b.spentIn == b.cycle && b.spentSum != nil {
		return b.spentSum
	}
	sum, from := map[string]float64{}, now.Add(-b.cfg.Admission.BudgetWindow)
	for _, rec := range b.allRecords() { // sums of floats depend on their order
		if rec.Reserved.Charged && rec.Reserved.At.After(from) {
			sum[rec.Reserved.Account] += rec.Reserved.GPUHours
		}
	}
	for _, account := range slices.Sorted(maps.Keys(b.carried)) {
		for _, c := range b.carried[account] {
			if c.At.After(from) {
				sum[account] += c.GPUHours
			}
		}
	}
	b.spentSum, b.spentIn = sum, b.cycle
	return sum
}

// carriedParts is in how many parts of the window the charges of forgotten jobs are kept: the bound of what one account's list may grow to.
const carriedParts = 64

// carry keeps the charge of a job whose record is about to be dropped. It is journalled before the record's end is.
func (b *Bridge) carry(now time.Time, rec *Record) {
	r := rec.Reserved
	if !r.Charged || b.cfg.budgetOf(r.Account) <= 0 {
		return
	}
	if b.carried == nil {
		b.carried = map[string][]charge{}
	}
	part := b.cfg.Admission.BudgetWindow / carriedParts
	at := r.At.Truncate(part).Add(part - 1) // the latest of its part: charges err towards counting too long
	list := slices.DeleteFunc(slices.Clone(b.carried[r.Account]), func(c charge) bool { return !c.At.After(now.Add(-b.cfg.Admission.BudgetWindow)) })
	if i := slices.IndexFunc(list, func(c charge) bool { return c.At.Equal(at) }); i >= 0 {
		list[i].GPUHours += r.GPUHours
	} else {
		list = keep(list, 2*carriedParts, charge{at, r.GPUHours})
	}
	b.carried[r.Account] = list
	rec.Reserved.Charged, b.spentIn = false, -1
	b.audit = append(b.audit, entry(now, kindBudget, r.Account, list))
}

// budgets are those of the accounts that have one or have been charged, by name.
func (b *Bridge) budgets(now time.Time) []Budget {
	spent := b.spent(now)
	names := slices.Collect(maps.Keys(spent))
	for name, g := range b.cfg.Accounts {
		if g.StrictGPUHours > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var out []Budget
	for _, name := range slices.Compact(names) {
		if limit := b.cfg.budgetOf(name); limit > 0 {
			out = append(out, Budget{name, spent[name], limit, b.cfg.Admission.BudgetWindow.Seconds()})
		}
	}
	return out
}
