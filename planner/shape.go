package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Shape is the number of GPUs on each node of a job, largest first: {4, 2} is four on one node and two on another.
type Shape []int

// Even returns the shape of nodes x perNode GPUs.
func Even(nodes, perNode int) Shape {
	return slices.Repeat(Shape{perNode}, nodes)
}

// GPUs is the total number of GPUs.
func (s Shape) GPUs() int {
	n := 0
	for _, g := range s {
		n += g
	}
	return n
}

// Nodes is the number of nodes.
func (s Shape) Nodes() int { return len(s) }

// IsEven reports whether all nodes hold the same number of GPUs: the only shapes that can be set on any waiting job.
func (s Shape) IsEven() bool {
	return len(s) > 0 && slices.Max(s) == slices.Min(s)
}

func (s Shape) String() string {
	if len(s) > 1 && s.IsEven() {
		return fmt.Sprintf("%dx%d", len(s), s[0])
	}
	parts := make([]string, len(s))
	for i, g := range s {
		parts[i] = strconv.Itoa(g)
	}
	return strings.Join(parts, "+")
}

// Equal reports whether both shapes are the same (both are kept largest first).
func (s Shape) Equal(o Shape) bool { return slices.Equal(s, o) }

// Share is the part of a placement on one node.
type Share struct {
	Node string `json:"node"`
	GPUs int    `json:"gpus"`
}

// Placement is a Shape on named nodes, sorted by GPUs (largest first), then node name.
type Placement []Share

// NewPlacement sorts shares into the canonical order.
func NewPlacement(shares ...Share) Placement {
	p := slices.Clone(shares)
	slices.SortFunc(p, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.GPUs, a.GPUs), strings.Compare(a.Node, b.Node))
	})
	return p
}

// Shape drops the node names.
func (p Placement) Shape() Shape {
	s := make(Shape, len(p))
	for i, sh := range p {
		s[i] = sh.GPUs
	}
	return s
}

// Has reports whether s is the placement's shape.
func (p Placement) Has(s Shape) bool {
	return slices.EqualFunc(p, s, func(sh Share, gpus int) bool { return sh.GPUs == gpus })
}

// GPUs is the total number of GPUs.
func (p Placement) GPUs() int {
	n := 0
	for _, s := range p {
		n += s.GPUs
	}
	return n
}

// On returns the number of GPUs on the named node.
func (p Placement) On(node string) int {
	for _, s := range p {
		if s.Node == node {
			return s.GPUs
		}
	}
	return 0
}

// Names returns the node names in placement order.
func (p Placement) Names() []string {
	out := make([]string, len(p))
	for i, s := range p {
		out[i] = s.Node
	}
	return out
}

func (p Placement) String() string { return string(p.Append(make([]byte, 0, 16*len(p)))) }

// Append appends the placement as String shows it.
func (p Placement) Append(b []byte) []byte {
	for i, s := range p {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, s.Node...), ':')
		b = strconv.AppendInt(b, int64(s.GPUs), 10)
	}
	return b
}
