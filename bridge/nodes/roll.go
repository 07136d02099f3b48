package nodes

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"unisched/hooks/gpu"
)

// PathRoll is where the control socket shows the roll of the watchers.
const PathRoll = "/v1/watchers"

// heard is the last that was heard of a watcher.
type heard struct {
	instance, version string
	at                time.Time
	ahead             time.Duration // of its clock, less the way here
	gpus              *gpu.Report   // the newest
	gpusAt            time.Time     // when it came
}

// Watcher is one node's watcher.
type Watcher struct {
	Node    string        `json:"node"`
	Version string        `json:"version"` // "" of one that does not say
	Heard   time.Time     `json:"heard"`
	Ahead   time.Duration `json:"ahead_ns"` // its clock against ours
}

// Roll is the answer of PathRoll: who has reported since the daemon started.
type Roll struct {
	Schema   int       `json:"schema_version"`
	Watchers []Watcher `json:"watchers"`
	// GPUs are the newest reports of the nodes that sample theirs.
	GPUs []NodeGPUs `json:"gpus,omitempty"`
}

// Roll lists the watchers by node.
func (l *Listener) Roll() Roll {
	l.mu.Lock()
	r := Roll{Schema: 1, Watchers: make([]Watcher, 0, len(l.watchers))}
	for node, h := range l.watchers {
		r.Watchers = append(r.Watchers, Watcher{node, h.version, h.at, h.ahead})
	}
	l.mu.Unlock()
	r.GPUs = l.GPUs()
	slices.SortFunc(r.Watchers, func(a, b Watcher) int { return strings.Compare(a.Node, b.Node) })
	return r
}

// NodeGPUs is what a node told last of its GPUs.
type NodeGPUs struct {
	Node   string     `json:"node"`
	At     time.Time  `json:"at"` // when it came, by our clock
	Report gpu.Report `json:"report"`
}

// GPUs lists the newest reports by node. Whoever reads one looks at its age: a node that has fallen silent keeps its last.
func (l *Listener) GPUs() []NodeGPUs {
	l.mu.Lock()
	out := make([]NodeGPUs, 0, len(l.watchers))
	for node, h := range l.watchers {
		if h.gpus != nil {
			out = append(out, NodeGPUs{node, h.gpusAt, *h.gpus})
		}
	}
	l.mu.Unlock()
	slices.SortFunc(out, func(a, b NodeGPUs) int { return strings.Compare(a.Node, b.Node) })
	return out
}

// RollHandler answers PathRoll.
func (l *Listener) RollHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.Header().Set("Allow", http.MethodGet)
			answer(w, http.StatusMethodNotAllowed, "only GET here")
			return
		}
		b, err := json.Marshal(l.Roll())
		if err != nil {
			panic(err) // strings and numbers always encode
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(b)
	})
}
