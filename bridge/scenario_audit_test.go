package bridge_test

import (
	"encoding/json"
	"testing"
	"time"

	"unisched/bridge"
)

// Every write to Slurm has one line in the log, with an id that no other has, and an intent and a result under that id in the journal: of the same kind,
// for the same job, with the same outcome.
func TestScenarioAudit(t *testing.T) {
	w := newWorld(t, site{nodes: 2, gpus: 4})
	w.fill(2, 20000)
	w.urgent("strict", 1200, 40*time.Minute)
	w.until(time.Hour, "the strict job has ended", w.finished("strict"))
	w.run(10*time.Minute, nil)
	logged := map[string]bridge.Note{}
	for _, n := range w.notes {
		if n.Action == "" {
			continue
		}
		if _, twice := logged[n.Action]; twice {
			t.Errorf("action %s is logged twice", n.Action)
		}
		if n.Kind == "" || n.Outcome == "" || n.Job == 0 {
			t.Errorf("%+v", n)
		}
		logged[n.Action] = n
	}
	if len(logged) != w.wire.writes || len(logged) < 10 {
		t.Errorf("%d actions are logged, %d writes were made", len(logged), w.wire.writes)
	}
	intents, results := map[string]bridge.Intent{}, map[string]bridge.Result{}
	for _, e := range w.mem.entries {
		var err error
		switch e.Kind {
		case "intent":
			var i bridge.Intent
			err = json.Unmarshal(e.Data, &i)
			intents[i.ID] = i
		case "result":
			var r bridge.Result
			err = json.Unmarshal(e.Data, &r)
			results[r.ID] = r
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(intents) != len(logged) || len(results) != len(logged) {
		t.Errorf("%d intents and %d results of %d actions", len(intents), len(results), len(logged))
	}
	for id, n := range logged {
		i, r := intents[id], results[id]
		if i.Action != n.Kind || r.Action != n.Kind || r.Outcome != n.Outcome || int64(i.Run.Job) != int64(n.Job) || i.Run != r.Run || i.Plan != n.Plan {
			t.Errorf("%s: log %+v, intent %+v, result %+v", id, n, i, r)
		}
	}
}
