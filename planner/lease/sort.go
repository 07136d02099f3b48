package lease

import "cmp"

// place is a job with its keys in an order.
type place struct {
	key [2]float64
	job int
}

// before is the total order of places: by the keys, then by the job's index.
func (a *place) before(b *place) bool {
	for k := range a.key {
		switch x, y := a.key[k], b.key[k]; {
		case x < y:
			return true
		case x > y:
			return false
		case x != y: // one of them is no number
			if c := cmp.Compare(x, y); c != 0 {
				return c < 0
			}
		}
	}
	return a.job < b.job
}

// shortRun is the length up to which runs are made by insertion.
const shortRun = 12

// sortPlaces sorts by merging the runs that are in order already. A round sorts its jobs again and again, mostly by keys of which an order is known that is
// nearly the one asked for; a general sort neither sees that nor compares without a call. It returns the places in order, which lie in one of the two lists;
// both have the same length.
func sortPlaces(list, spare []place) []place {
	n := len(list)
	var ends []int // of the runs
	for from := 0; from < n; {
		to := from + 1
		for to < n && !list[to].before(&list[to-1]) {
			to++
		}
		if least := min(from+shortRun, n); to < least {
			insertPlaces(list[from:least], to-from)
			to = least
		}
		ends = append(ends, to)
		from = to
	}
	for len(ends) > 1 {
		kept, from := ends[:0], 0
		for k := 0; k < len(ends); k += 2 {
			mid := ends[k]
			to := ends[min(k+1, len(ends)-1)]
			mergePlaces(spare[from:to], list[from:mid], list[mid:to])
			kept = append(kept, to)
			from = to
		}
		ends = kept
		list, spare = spare, list
	}
	return list
}

// insertPlaces puts a list in order whose first so many are.
func insertPlaces(list []place, sorted int) {
	for i := sorted; i < len(list); i++ {
		p, k := list[i], i
		for ; k > 0 && p.before(&list[k-1]); k-- {
			list[k] = list[k-1]
		}
		list[k] = p
	}
}

// mergePlaces merges two lists in order; the second may be empty.
func mergePlaces(to, a, b []place) {
	k := 0
	for len(a) > 0 && len(b) > 0 {
		if b[0].before(&a[0]) {
			to[k], b = b[0], b[1:]
		} else {
			to[k], a = a[0], a[1:]
		}
		k++
	}
	k += copy(to[k:], a)
	copy(to[k:], b)
}
