//go:build !cgo

package highs

import "math"

const available = false

// solve answers that there is no HiGHS in this executable.
func solve(request) answer {
	return answer{Bound: math.NaN(), Note: ErrUnavailable.Error()}
}
