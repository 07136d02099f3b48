// Package topology reads how the nodes of a cluster are wired: the syntax of topology.conf (topology/tree and topology/block), which the output of
// `scontrol show topology` shares, and the field of a node's record that newer releases fill. It is pure and bounded, refuses what
// contradicts itself, and decides nothing: the bridge hands each node's path to the planner.
package topology

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"unisched/slurm/hostlist"
)

// Bounds on what is read.
const (
	maxBytes = 8 << 20
	maxUnits = 1 << 16 // switches or blocks
	maxNodes = 1 << 18
	maxDepth = 16
)

// ErrSyntax is wrapped by the error of every text that is not well formed, or contradicts itself.
var ErrSyntax = errors.New("topology: bad syntax")

// Topology is where each node hangs: the names of the switches above it, nearest first; or of its block and the larger blocks around it.
type Topology struct {
	Paths map[string][]string
}

// Of is the path of a node, nil when it is not known.
func (t Topology) Of(node string) []string { return t.Paths[node] }

// unit is a switch or a block as the text has it.
type unit struct {
	name            string
	line            int
	nodes, children []string
	parent          string
}

// Parse reads a topology.conf: lines of Key=Value words, '#' begins a comment, a backslash at the end joins lines.
func Parse(text string) (Topology, error) {
	if len(text) > maxBytes {
		return Topology{}, fmt.Errorf("%w: more than %d bytes", ErrSyntax, maxBytes)
	}
	p := parser{units: map[string]*unit{}}
	for n, line := range joined(text) {
		if err := p.line(line.text, line.no); err != nil {
			return Topology{}, fmt.Errorf("%w: line %d: %w", ErrSyntax, line.no, err)
		}
		if n > 4*maxUnits {
			return Topology{}, fmt.Errorf("%w: too many lines", ErrSyntax)
		}
	}
	paths, err := p.paths()
	if err != nil {
		return Topology{}, fmt.Errorf("%w: %w", ErrSyntax, err)
	}
	return Topology{paths}, nil
}

type numbered struct {
	text string
	no   int
}

// joined is the text without comments, continued lines in one.
func joined(text string) []numbered {
	var out []numbered
	open := false
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		body, more := strings.CutSuffix(line, `\`)
		if open {
			out[len(out)-1].text += " " + body
		} else if body != "" || more {
			out = append(out, numbered{body, i + 1})
		}
		open = more
	}
	return out
}

type parser struct {
	units  map[string]*unit // lookup only
	order  []*unit
	blocks bool
	sizes  []int
	nodes  int
}

func (p *parser) line(line string, no int) error {
	u := &unit{line: no}
	block := false
	for _, w := range strings.Fields(line) {
		key, value, ok := strings.Cut(w, "=")
		if !ok {
			return fmt.Errorf("%.60q is no key=value", w)
		}
		var err error
		switch strings.ToLower(key) {
		case "switchname":
			u.name = value
		case "blockname":
			u.name, block = value, true
		case "nodes":
			if value != "" && value != "(null)" {
				u.nodes, err = hostlist.Expand(value)
			}
		case "switches":
			if value != "" && value != "(null)" {
				u.children, err = hostlist.Expand(value)
			}
		case "blocksizes":
			p.sizes, err = sizes(value)
		case "linkspeed", "level", "blockindex", "blocksize", "aggregatedblock": // nothing that is used here
		default:
			return fmt.Errorf("unknown key %.60q", key)
		}
		if err != nil {
			return fmt.Errorf("%.40s: %w", key, err)
		}
	}
	if u.name == "" {
		if len(u.nodes)+len(u.children) > 0 {
			return errors.New("nodes without a SwitchName or BlockName")
		}
		return nil
	}
	return p.add(u, block)
}

func sizes(value string) ([]int, error) {
	var out []int
	for _, s := range strings.Split(value, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > maxNodes || len(out) > 0 && n <= out[len(out)-1] || len(out) >= maxDepth {
			return nil, fmt.Errorf("%.60q is no list of rising sizes", value)
		}
		out = append(out, n)
	}
	return out, nil
}

func (p *parser) add(u *unit, block bool) error {
	switch {
	case len(p.order) > 0 && block != p.blocks:
		return errors.New("switches and blocks in one topology")
	case p.units[u.name] != nil:
		return fmt.Errorf("%.60q is named twice", u.name)
	case len(p.order) >= maxUnits:
		return fmt.Errorf("more than %d switches or blocks", maxUnits)
	case !block && len(u.nodes) > 0 && len(u.children) > 0:
		return fmt.Errorf("switch %.60q has nodes and switches", u.name)
	}
	if p.nodes += len(u.nodes); p.nodes > maxNodes {
		return fmt.Errorf("more than %d nodes", maxNodes)
	}
	p.blocks = block
	p.units[u.name] = u
	p.order = append(p.order, u)
	return nil
}

// paths hangs every node under its switch or block, and that under what is above it.
func (p *parser) paths() (map[string][]string, error) {
	if p.blocks {
		p.aggregate()
	}
	for _, u := range p.order {
		for _, c := range u.children {
			switch child := p.units[c]; {
			case child == nil:
				return nil, fmt.Errorf("line %d: switch %.60q is not described", u.line, c)
			case child.parent != "" && child.parent != u.name:
				return nil, fmt.Errorf("line %d: switch %.60q is below %.60q and %.60q", u.line, c, child.parent, u.name)
			default:
				child.parent = u.name
			}
		}
	}
	out := map[string][]string{}
	for _, u := range p.order {
		var path []string
		for at := u; at != nil && at.name != ""; at = p.units[at.parent] {
			if path = append(path, at.name); len(path) > maxDepth {
				return nil, fmt.Errorf("line %d: more than %d levels, or a circle", u.line, maxDepth)
			}
		}
		for _, n := range u.nodes {
			if old := out[n]; old != nil && old[0] != u.name {
				return nil, fmt.Errorf("line %d: node %.60q is in %.60q and %.60q", u.line, n, old[0], u.name)
			}
			out[n] = path
		}
	}
	return out, nil
}

// aggregate puts blocks together as BlockSizes says: with sizes 4,8 every two blocks that follow each other make a larger one.
func (p *parser) aggregate() {
	if len(p.sizes) == 0 {
		return
	}
	base := slices.Clone(p.order)
	level := base
	for k := 1; k < len(p.sizes); k++ {
		ratio := p.sizes[k] / p.sizes[k-1]
		if ratio < 2 {
			continue
		}
		var next []*unit
		for i := 0; i < len(level); i += ratio {
			part := level[i:min(i+ratio, len(level))]
			first, _, _ := strings.Cut(part[0].name, "..")
			u := &unit{name: first + ".." + lastBase(part[len(part)-1].name), line: part[0].line}
			if p.units[u.name] != nil { // one that was alone already, or a name that looks so
				next = append(next, part[0])
				continue
			}
			p.units[u.name] = u
			for _, c := range part {
				c.parent = u.name
			}
			next = append(next, u)
		}
		level = next
	}
}

// lastBase is the last block of an aggregated one.
func lastBase(name string) string {
	if i := strings.LastIndex(name, ".."); i >= 0 {
		return name[i+2:]
	}
	return name
}

// OfNode reads the topology field of a node's record, such as "tree:s1" or "tree:s1:root,block:b3": the first topology's units, nearest first. It is
// nil for what is empty or not understood.
func OfNode(field string) []string {
	first, _, _ := strings.Cut(field, ",")
	parts := strings.Split(first, ":")
	if len(parts) < 2 || len(parts) > maxDepth {
		return nil
	}
	for _, u := range parts[1:] {
		if u == "" || len(u) > 256 {
			return nil
		}
	}
	return parts[1:]
}
