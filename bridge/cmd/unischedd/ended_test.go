package main

import (
	"encoding/json"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"unisched/bridge"
	"unisched/bridge/account"
	"unisched/planner"
)

// What became of a job is written down once, over restarts of the daemon, also of a job that ended while none ran.
func TestEndedJobsAreKept(t *testing.T) {
	s := site(t, "http://127.0.0.1:1")
	at := wallClock()
	v := &bridge.View{Cycle: 1, At: at, Jobs: []bridge.JobView{
		{ID: 12, Ref: "12", Class: planner.Strict, Phase: bridge.Completed, Submitted: at.Add(-2 * time.Hour), Ended: at.Add(-time.Hour)},
		{ID: 13, Ref: "13", Class: planner.Strict, Phase: bridge.Running, Submitted: at.Add(-2 * time.Hour)},
	}}
	for range 2 {
		w := newWatch(s, zerolog.Nop(), nil)
		w.view = func() *bridge.View { return v }
		w.done(at, nil)
		w.done(at, nil)
		rec := httptest.NewRecorder()
		w.mounts()[account.Path].ServeHTTP(rec, httptest.NewRequest("GET", account.Path, nil))
		var doc account.Document
		if err := json.Unmarshal(rec.Body.Bytes(), &doc); err != nil || rec.Code != 200 || len(doc.Jobs) != 1 || doc.Jobs[0].Job != 12 {
			t.Fatalf("%v, %d: %s", err, rec.Code, rec.Body)
		}
		w.close()
	}
}
