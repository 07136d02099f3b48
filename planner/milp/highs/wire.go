package highs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"time"

	"unisched/planner/milp"
)

// Parent and child are the same executable, so the format has no versions. A frame is a magic of four bytes, the
// length and the CRC-32C of the payload, and the payload; all numbers are little-endian.
const (
	requestMagic = "USrq"
	answerMagic  = "USan"
	frameHead    = 4 + 8 + 4
	maxRequest   = 1 << 30
	maxNote      = 1024
)

var (
	errFrame   = errors.New("incomplete or damaged frame")
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// request is what a child is asked.
type request struct {
	milp.Limits
	Nice  int
	Asked uint32 // counts the requests to one child
	Model *milp.Model
}

// answer is what a child says. X is nil when it has no solution; Bound is NaN when it knows none.
type answer struct {
	Status milp.Status
	Asked  uint32 // the request that it answers
	Leaves bool   // the child ends after it
	X      []float64
	Bound  float64
	Note   string
}

type requestHead struct {
	Time, Nodes, MemoryMB, Nice int64
	Gap                         float64
	Relax                       bool
	Asked                       uint32
	Cols, Rows, Entries         uint32
}

type answerHead struct {
	Status     uint8
	HasX       bool
	Leaves     bool
	Asked      uint32
	Bound      float64
	Cols, Note uint32
}

// maxAnswer is the size of the largest answer to a model with so many columns.
func maxAnswer(cols int) int { return frameHead + binary.Size(answerHead{}) + 8*cols + maxNote }

func seal(magic string, payload []byte) []byte {
	f := append(make([]byte, 0, frameHead+len(payload)), magic...)
	f = binary.LittleEndian.AppendUint64(f, uint64(len(payload)))
	f = binary.LittleEndian.AppendUint32(f, crc32.Checksum(payload, castagnoli))
	return append(f, payload...)
}

// frameSize reads the length of the payload from the head of a frame.
func frameSize(head []byte, magic string, limit uint64) (uint64, bool) {
	n := binary.LittleEndian.Uint64(head[4:])
	return n, string(head[:4]) == magic && n <= limit
}

// readFrame reads one frame and leaves what follows unread.
func readFrame(r io.Reader, magic string, limit uint64) ([]byte, error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, fmt.Errorf("%w: %w", errFrame, err)
	}
	n, ok := frameSize(head[:], magic, limit)
	if !ok {
		return nil, errFrame
	}
	payload := make([]byte, n)
	if _, err := io.ReadFull(r, payload); err != nil {
		return nil, fmt.Errorf("%w: %w", errFrame, err)
	}
	if crc32.Checksum(payload, castagnoli) != binary.LittleEndian.Uint32(head[12:]) {
		return nil, errFrame
	}
	return payload, nil
}

func encodeRequest(q request) []byte {
	m := q.Model
	head := requestHead{
		Time: int64(q.Time), Nodes: int64(q.Nodes), MemoryMB: int64(q.MemoryMB), Nice: int64(q.Nice),
		Gap: q.Gap, Relax: q.Relax, Asked: q.Asked,
		Cols: uint32(m.Cols()), Rows: uint32(m.Rows()), Entries: uint32(len(m.Index)),
	}
	buf := make([]byte, 0, 128+25*m.Cols()+20*m.Rows()+12*len(m.Index))
	start := m.Start
	if m.Rows() == 0 {
		start = nil
	}
	for _, part := range []any{head, m.Obj, m.ColLo, m.ColHi, m.Int, m.RowLo, m.RowHi, start, m.Index, m.Value} {
		var err error
		if buf, err = binary.Append(buf, binary.LittleEndian, part); err != nil {
			panic(err) // every part has a fixed size
		}
	}
	return seal(requestMagic, buf)
}

// decodeRequest decodes the payload of a request and validates its model.
func decodeRequest(p []byte) (request, error) {
	var h requestHead
	n, err := binary.Decode(p, binary.LittleEndian, &h)
	if err != nil {
		return request{}, errFrame
	}
	p = p[n:]
	starts := uint64(0)
	if h.Rows > 0 {
		starts = uint64(h.Rows) + 1
	}
	if uint64(len(p)) != 25*uint64(h.Cols)+16*uint64(h.Rows)+4*starts+12*uint64(h.Entries) {
		return request{}, errFrame
	}
	m := &milp.Model{
		Obj: make([]float64, h.Cols), ColLo: make([]float64, h.Cols), ColHi: make([]float64, h.Cols),
		Int: make([]bool, h.Cols), RowLo: make([]float64, h.Rows), RowHi: make([]float64, h.Rows),
		Start: make([]int32, starts), Index: make([]int32, h.Entries), Value: make([]float64, h.Entries),
	}
	for _, part := range []any{m.Obj, m.ColLo, m.ColHi, m.Int, m.RowLo, m.RowHi, m.Start, m.Index, m.Value} {
		n := binary.Size(part) // Decode wants exactly the bytes of a []bool
		if _, err = binary.Decode(p[:n], binary.LittleEndian, part); err != nil {
			return request{}, errFrame
		}
		p = p[n:]
	}
	q := request{Nice: int(h.Nice), Asked: h.Asked, Model: m, Limits: milp.Limits{
		Time: time.Duration(h.Time), Nodes: int(h.Nodes), Gap: h.Gap, MemoryMB: int(h.MemoryMB), Relax: h.Relax,
	}}
	return q, m.Validate()
}

func encodeAnswer(a answer) []byte {
	note := a.Note[:min(len(a.Note), maxNote)]
	head := answerHead{Status: uint8(a.Status), HasX: a.X != nil, Asked: a.Asked, Leaves: a.Leaves, Bound: a.Bound,
		Cols: uint32(len(a.X)), Note: uint32(len(note))}
	buf, err := binary.Append(nil, binary.LittleEndian, head)
	if err != nil {
		panic(err) // the head has a fixed size
	}
	for _, v := range a.X {
		buf = binary.LittleEndian.AppendUint64(buf, math.Float64bits(v))
	}
	return seal(answerMagic, append(buf, note...))
}

// decodeAnswer decodes a whole frame. An X of another length than cols is left to Model.Feasible to refuse.
func decodeAnswer(frame []byte, cols int) (answer, error) {
	p, err := readFrame(bytes.NewReader(frame), answerMagic, uint64(maxAnswer(cols)))
	if err != nil {
		return answer{}, err
	}
	var h answerHead
	n, err := binary.Decode(p, binary.LittleEndian, &h)
	if err != nil || uint64(len(p)-n) != 8*uint64(h.Cols)+uint64(h.Note) || h.Status > uint8(milp.Infeasible) {
		return answer{}, errFrame
	}
	a := answer{Status: milp.Status(h.Status), Asked: h.Asked, Leaves: h.Leaves, Bound: h.Bound}
	p = p[n:]
	if h.HasX {
		a.X = make([]float64, h.Cols)
		for j := range a.X {
			a.X[j] = math.Float64frombits(binary.LittleEndian.Uint64(p[8*j:]))
		}
	}
	a.Note = string(p[8*h.Cols:])
	return a, nil
}
