// Command dashboards writes the Grafana dashboards of this folder from the short descriptions in boards.go: `go run ./contrib/dashboards`.
//
// The JSON files are what people import; the descriptions are what people read and change. A test keeps them equal, and every expression within the
// metrics that the daemon exports.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

func main() {
	_, here, _, _ := runtime.Caller(0)
	for _, b := range boards() {
		raw, err := b.encode()
		if err == nil {
			err = os.WriteFile(filepath.Join(filepath.Dir(here), b.file()), raw, 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "dashboards:", err)
			os.Exit(1)
		}
	}
}

// board is one dashboard: rows of panels.
type board struct {
	id, title, about string
	rows             []row
}

type row struct {
	title  string
	panels []panel
}

// panel is one picture. A stat shows the newest value, else it is a graph over time.
type panel struct {
	title, unit, about string
	stat               bool
	stack              bool
	width              int // of 24; 0: 8
	// red is the value from which a stat is red, redBelow the one below which it is; both 0: never.
	red, redBelow float64
	queries       []query
}

type query struct{ expr, legend string }

func (b board) file() string { return b.id + ".json" }

type object = map[string]any

// source is the Prometheus that the dashboard is told to use.
var source = object{"type": "prometheus", "uid": "${source}"}

// encode writes the dashboard as Grafana imports it.
func (b board) encode() ([]byte, error) {
	var panels []object
	id, y := 0, 0
	next := func() int { id++; return id }
	for _, r := range b.rows {
		panels = append(panels, object{"id": next(), "type": "row", "title": r.title, "collapsed": false, "panels": []object{}, "gridPos": object{"x": 0, "y": y, "w": 24, "h": 1}})
		y++
		x, high := 0, 0
		for _, p := range r.panels {
			w, h := p.width, 8
			if w == 0 {
				w = 8
			}
			if p.stat {
				h = 4
			}
			if x+w > 24 {
				x, y, high = 0, y+high, 0
			}
			panels = append(panels, p.encode(next(), object{"x": x, "y": y, "w": w, "h": h}))
			x, high = x+w, max(high, h)
		}
		y += high
	}
	raw, err := json.MarshalIndent(object{
		"uid": b.id, "title": b.title, "description": b.about, "tags": []string{"unisched", "slurm"}, "schemaVersion": 39, "version": 1, "editable": true,
		"refresh": "30s", "time": object{"from": "now-12h", "to": "now"}, "timezone": "", "panels": panels,
		"templating": object{"list": []object{{"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus", "hide": 0}}},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("dashboard %s: %w", b.id, err)
	}
	return append(raw, '\n'), nil
}

func (p panel) encode(id int, place object) object {
	kind, options := "timeseries", object{"legend": object{"displayMode": "list", "placement": "bottom"}, "tooltip": object{"mode": "multi", "sort": "desc"}}
	custom := object{"lineWidth": 1, "fillOpacity": 10}
	if p.stack {
		custom["stacking"] = object{"mode": "normal"}
		custom["fillOpacity"] = 50
	}
	if p.stat {
		kind, options = "stat", object{"reduceOptions": object{"calcs": []string{"lastNotNull"}}, "colorMode": "background", "graphMode": "area"}
		custom = object{}
	}
	steps := []object{{"color": "green", "value": nil}}
	switch {
	case p.redBelow > 0:
		steps = []object{{"color": "red", "value": nil}, {"color": "green", "value": p.redBelow}}
	case p.red > 0:
		steps = append(steps, object{"color": "red", "value": p.red})
	}
	var targets []object
	for i, q := range p.queries {
		targets = append(targets, object{"refId": string(rune('A' + i)), "expr": q.expr, "legendFormat": q.legend, "datasource": source})
	}
	return object{"id": id, "type": kind, "title": p.title, "description": p.about, "gridPos": place, "datasource": source, "targets": targets, "options": options,
		"fieldConfig": object{"defaults": object{"unit": p.unit, "custom": custom, "thresholds": object{"mode": "absolute", "steps": steps}}, "overrides": []object{}}}
}
