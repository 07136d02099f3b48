package milp

import "slices"

// Reduce returns the model without what is decided already: columns whose bounds meet, columns that are alone in an equality row, and rows that
// can no longer bind. whole turns a solution of the smaller model into one of m. The objective is the same but for a constant. Values of decided
// columns that break a row leave that row in place, so that the smaller model is infeasible as well.
func (m *Model) Reduce() (small *Model, whole func(x []float64) []float64) {
	open := make([]bool, m.Cols())
	value := make([]float64, m.Cols())
	for j := range open {
		open[j], value[j] = m.ColLo[j] < m.ColHi[j], m.ColLo[j]
	}
	for i := range m.Rows() { // one pass: enough for one-of-many rows
		if m.RowLo[i] != m.RowHi[i] {
			continue
		}
		only, rest := int32(-1), m.RowLo[i]
		coef, n := 0.0, 0
		for k := m.Start[i]; k < m.Start[i+1]; k++ {
			if j := m.Index[k]; open[j] {
				only, coef, n = j, m.Value[k], n+1
			} else {
				rest -= m.Value[k] * value[j]
			}
		}
		if n != 1 || coef == 0 {
			continue
		}
		if v := rest / coef; v >= m.ColLo[only] && v <= m.ColHi[only] && (!m.Int[only] || v == float64(int64(v))) {
			open[only], value[only] = false, v
		}
	}
	small = &Model{}
	at := make([]int32, m.Cols())
	for j := range open {
		at[j] = -1
		if open[j] {
			at[j] = int32(small.AddCol(m.Obj[j], m.ColLo[j], m.ColHi[j], m.Int[j]))
		}
	}
	var idx []int32
	var val []float64
	for i := range m.Rows() {
		idx, val = idx[:0], val[:0]
		done, least, most := 0.0, 0.0, 0.0
		for k := m.Start[i]; k < m.Start[i+1]; k++ {
			j, v := m.Index[k], m.Value[k]
			if !open[j] {
				done += v * value[j]
				continue
			}
			idx, val = append(idx, at[j]), append(val, v)
			least += min(v*m.ColLo[j], v*m.ColHi[j])
			most += max(v*m.ColLo[j], v*m.ColHi[j])
		}
		if least >= m.RowLo[i]-done && most <= m.RowHi[i]-done {
			continue
		}
		small.AddRow(m.RowLo[i]-done, m.RowHi[i]-done, idx, val)
	}
	return small, func(x []float64) []float64 {
		out := slices.Clone(value)
		for j, k := range at {
			if k >= 0 && int(k) < len(x) {
				out[j] = x[k]
			}
		}
		return out
	}
}
