package policy

import (
	"cmp"
	"slices"

	"unisched/planner"
)

// settle gives GPUs to the ranked jobs, first come first, and stops whoever is ranked too low to keep his: a preemptive list scheduler. Jobs that
// are both selected and running stay in place; selected jobs that find no hole among those make room by moving lower-ranked ones; what is left
// goes to whoever fits it, in order of rank, running jobs included, so that nobody is stopped in vain. With anew, selected
// running jobs are placed again like all others.
func (r *round) settle(anew func(*job) bool) {
	r.keepPinned()
	r.letThrough()
	r.choose()
	r.obeyBudget(anew)
	stays := func(j *job) bool { return j.running() && j.chosen && !j.resizes() && !anew(j) }
	r.starts = r.starts[:0]
	victims := 0
	for _, i := range r.order {
		switch j := &r.jobs[i]; {
		case j.decided != "":
		case stays(j) && r.floor.mayStay(&j.Needs, j.Current):
			r.keep(j)
		case j.chosen && len(j.want) > 0 && j.Blocked == "":
			r.starts = append(r.starts, i)
			fallthrough
		default:
			if j.running() {
				victims++
			}
		}
	}
	slices.SortFunc(r.starts, func(a, b int) int {
		x, y := r.jobs[a].want[0], r.jobs[b].want[0]
		return cmp.Or(cmp.Compare(y.shape[0], x.shape[0]), cmp.Compare(y.gpus, x.gpus), cmp.Compare(r.jobs[a].pos, r.jobs[b].pos))
	})
	e := evictor{r: r, budget: len(r.jobs)}
	if b, bounded := r.s.Budget(); bounded {
		e.budget = b - victims
	}
	for _, i := range r.starts {
		if j := &r.jobs[i]; !r.start(j, false) && e.makeRoom(j) {
			r.start(j, false)
		}
	}
	for _, i := range r.order {
		r.leftover(&r.jobs[i])
	}
}

// leftover gives what nobody took: a running job stays where it is, else moves, a waiting one starts.
func (r *round) leftover(j *job) {
	switch {
	case j.decided != "":
	case j.running() && r.floor.mayStay(&j.Needs, j.Current):
		r.keep(j)
	case j.Blocked == "" && r.start(j, false):
	}
}

// restart lets the jobs that keep their place start anew there: their lease ends, and they pay for the next one like any
// other start. As many are left alone as the budget of preemptions does not cover, best rank first.
func (r *round) restart(spared func(*job) bool) {
	b, bounded := r.s.Budget()
	for i := range r.jobs {
		if d := r.jobs[i].decided; d == planner.Move || d == planner.Stop || d == "" && r.jobs[i].running() {
			b--
		}
	}
	for k := len(r.order) - 1; k >= 0; k-- {
		j := &r.jobs[r.order[k]]
		if j.decided != planner.Keep || j.pin != "" || j.Blocked != "" || j.Profiles() || spared(j) || bounded && b <= 0 || !r.again(j) {
			continue
		}
		j.decided = planner.Move
		b--
	}
}

// again reports whether a job that keeps its place could start there: then it is booked as one that does.
func (r *round) again(j *job) bool {
	if !slices.ContainsFunc(j.opts, func(o option) bool { return o.shape.Equal(j.Current.Shape()) }) {
		return false
	}
	r.floor.take(&j.Needs, j.Current, -1, false)
	ok := j.Needs.MaxNodes <= 0 || len(j.Current) <= j.Needs.MaxNodes
	for _, sh := range j.Current {
		i, known := r.floor.index[sh.Node]
		ok = ok && known && r.floor.holds(&j.Needs, i, sh.GPUs, true) && j.Needs.Allows(r.floor.nodes[i]) == "" &&
			r.floor.nodes[i].GPUType == r.floor.nodes[r.floor.index[j.Current[0].Node]].GPUType
	}
	r.floor.take(&j.Needs, j.Current, 1, ok)
	return ok
}

// keepPinned keeps the jobs that a plan may not touch.
func (r *round) keepPinned() {
	for i := range r.jobs {
		if j := &r.jobs[i]; j.running() && j.pin != "" && j.decided == "" {
			r.keep(j)
		}
	}
}

func (r *round) keep(j *job) {
	j.decided, j.place = planner.Keep, j.Current
	r.floor.take(&j.Needs, j.Current, 1, false)
}

// start places a job on the first of the shapes it wants that finds a hole; a running job that finds its own place stays.
func (r *round) start(j *job, long bool) bool {
	for _, o := range j.want {
		more := o.gpus
		if j.running() {
			more -= j.held // a quota counts what runs until the next round
		}
		if j.quota >= 0 && more > r.quota[j.quota] {
			continue
		}
		p, ok := r.floor.put(j.kind, o.shape, long)
		if !ok {
			continue
		}
		j.place, j.decided = p, planner.Start
		if j.running() {
			j.decided = planner.Move
			if slices.Equal(p, j.Current) {
				j.decided = planner.Keep
			}
		}
		r.floor.take(&j.Needs, p, 1, true)
		if j.quota >= 0 {
			r.quota[j.quota] -= max(0, more)
		}
		return true
	}
	return false
}

// letThrough leaves GPUs that are free although everybody keeps running to the jobs that are not managed: Slurm would start them there.
func (r *round) letThrough() {
	any := false
	for i := range r.jobs {
		any = any || r.jobs[i].Foreign && r.jobs[i].idle == "" && !r.jobs[i].running() && r.jobs[i].decided == ""
	}
	if !any {
		return
	}
	book := func(sign int) {
		for i := range r.jobs {
			if j := &r.jobs[i]; j.running() && j.decided == "" {
				r.floor.take(&j.Needs, j.Current, sign, false)
			}
		}
	}
	book(1)
	r.rankForeign()
	for _, x := range r.sorter {
		r.start(&r.jobs[x.job], false)
	}
	book(-1)
}

func (r *round) rankForeign() {
	r.sorter = r.sorter[:0]
	for i := range r.jobs {
		if j := &r.jobs[i]; j.Foreign && j.idle == "" && !j.running() && j.decided == "" {
			r.sorter = append(r.sorter, sortable{job: i})
		}
	}
	slices.SortFunc(r.sorter, func(a, b sortable) int {
		return cmp.Or(r.jobs[a.job].Submitted.Compare(r.jobs[b.job].Submitted), cmp.Compare(a.job, b.job))
	})
}

// choose selects jobs by rank as long as there are GPUs for them, by count alone, and returns how many are left.
func (r *round) choose() int {
	free := 0
	for i := range r.floor.spots {
		if x := &r.floor.spots[i]; x.usable {
			free += max(0, x.gpus)
		}
	}
	for _, k := range r.floor.list {
		k.free = 0
		for _, group := range k.groups {
			for _, i := range group {
				k.free += max(0, r.floor.spots[i].gpus)
			}
		}
	}
	for _, i := range r.order {
		j := &r.jobs[i]
		j.chosen = false
		if g := j.gpus(); j.decided == "" && g <= free && g <= j.kind.free {
			j.chosen = true
			free -= g
			j.kind.free -= g
		}
	}
	return free
}

// obeyBudget pins running jobs, best rank first, when more would be stopped or moved than may be, and selects anew.
func (r *round) obeyBudget(anew func(*job) bool) {
	b, bounded := r.s.Budget()
	if !bounded {
		return
	}
	victims := 0
	for _, i := range r.order {
		if j := &r.jobs[i]; j.running() && j.decided == "" && (!j.chosen || j.resizes() || anew(j)) {
			victims++
		}
	}
	if victims <= b {
		return
	}
	left := b
	for k := len(r.order) - 1; k >= 0; k-- {
		j := &r.jobs[r.order[k]]
		if !j.running() || j.decided != "" {
			continue
		}
		if (!j.chosen || j.resizes() || anew(j)) && left > 0 {
			left--
			continue
		}
		if r.floor.mayStay(&j.Needs, j.Current) {
			j.pin = planner.ReasonBudget
			r.keep(j)
		}
	}
	r.choose()
}

// evictor moves lower-ranked jobs out of the way.
type evictor struct {
	r      *round
	budget int     // jobs that may still be stopped or moved
	on     [][]int // jobs that may be evicted, by node; nil until it is needed
}

// makeRoom evicts kept jobs ranked below j from the nodes where the fewest GPUs have to be emptied for its most consolidated shape. It reports whether
// there is room now; when not, everybody is back in place.
func (e *evictor) makeRoom(j *job) bool {
	if e.budget <= 0 {
		return false
	}
	if e.on == nil {
		e.index()
	}
	shape := j.want[0].shape
	var out []int
	for _, group := range j.kind.groups {
		ok := true
		var used []int
		for _, g := range shape {
			node, victims := e.cheapest(j, g, group, used)
			if node < 0 || len(out)+len(victims) > e.budget {
				ok = false
				break
			}
			used = append(used, node)
			for _, v := range victims {
				out = append(out, v)
				e.move(v, -1)
			}
		}
		if ok && e.r.floor.match(j.kind, shape, group, false) {
			e.budget -= len(out)
			return true
		}
		for _, v := range out {
			e.move(v, 1)
		}
		out = out[:0]
	}
	return false
}

// move takes a job off its nodes (-1) or puts it back (1).
func (e *evictor) move(i, sign int) {
	j := &e.r.jobs[i]
	e.r.floor.take(&j.Needs, j.Current, sign, false)
	if sign < 0 {
		j.decided, j.place = "", nil
	} else {
		j.decided, j.place = planner.Keep, j.Current
	}
}

// cheapest finds the node where a share of g GPUs costs the fewest GPUs of jobs ranked below j, then the worst-ranked of them, and those jobs, worst
// rank first.
func (e *evictor) cheapest(j *job, g int, group, used []int) (int, []int) {
	best, bestCost, bestPos := -1, 0, 0
	for _, i := range group {
		x := &e.r.floor.spots[i]
		if slices.Contains(used, i) {
			continue
		}
		free, cost, pos := x.gpus, 0, len(e.r.jobs)
		for _, v := range e.on[i] {
			if free >= g {
				break
			}
			if victim := &e.r.jobs[v]; victim.decided == planner.Keep && victim.pos > j.pos {
				n := victim.Current.On(e.r.floor.nodes[i].Name)
				free, cost, pos = free+n, cost+victim.held, victim.pos
			}
		}
		if free >= g && (best < 0 || cost < bestCost || cost == bestCost && pos > bestPos) {
			best, bestCost, bestPos = i, cost, pos
		}
	}
	if best < 0 {
		return -1, nil
	}
	var out []int
	free := e.r.floor.spots[best].gpus
	for _, v := range e.on[best] {
		if victim := &e.r.jobs[v]; free < g && victim.decided == planner.Keep && victim.pos > j.pos {
			free += victim.Current.On(e.r.floor.nodes[best].Name)
			out = append(out, v)
		}
	}
	return best, out
}

// index lists the kept jobs that are ranked, by node, worst rank first.
func (e *evictor) index() {
	e.on = make([][]int, len(e.r.floor.nodes))
	for k := len(e.r.order) - 1; k >= 0; k-- {
		i := e.r.order[k]
		if j := &e.r.jobs[i]; j.decided == planner.Keep && j.pin == "" && j.running() {
			for _, sh := range j.Current {
				if n, ok := e.r.floor.index[sh.Node]; ok {
					e.on[n] = append(e.on[n], i)
				}
			}
		}
	}
}

// inPlace is the rule of all who leave running jobs where they are.
func inPlace(*job) bool { return false }
