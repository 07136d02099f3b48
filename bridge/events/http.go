package events

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"unisched/bridge"
	"unisched/bridge/control"
	"unisched/slurm"
)

// Path is where the control socket answers: GET [?job=ID][&since=SEQ][&limit=N][&wait=SECONDS]: Document.
const Path = "/v1/events"

// MaxWait bounds how long one question may wait for news.
const MaxWait = 30 * time.Second

// Document is an answer as JSON. Next is the since of the next question.
type Document struct {
	Schema int     `json:"schema_version"`
	Events []Event `json:"events"`
	Next   int64   `json:"next"`
}

// Handler answers Path.
func (s *Store) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.Header().Set("Allow", http.MethodGet)
			control.Refuse(w, http.StatusMethodNotAllowed, "only GET here")
			return
		}
		q, wait, err := parse(r)
		if err != nil {
			control.Refuse(w, http.StatusBadRequest, err.Error())
			return
		}
		var a Answer
		if wait > 0 {
			ctx, cancel := context.WithTimeout(r.Context(), wait)
			defer cancel()
			a, err = s.Wait(ctx, q)
		} else {
			a, err = s.Find(q)
		}
		if err != nil {
			control.Refuse(w, http.StatusInternalServerError, err.Error())
			return
		}
		if a.Events == nil {
			a.Events = []Event{}
		}
		control.Reply(w, http.StatusOK, Document{bridge.ViewSchema, a.Events, a.Next})
	})
}

func parse(r *http.Request) (Query, time.Duration, error) {
	v := r.URL.Query()
	number := func(name string, most int64) (n int64, err error) {
		s := v.Get(name)
		if s == "" {
			return 0, nil
		}
		if n, err = strconv.ParseInt(s, 10, 64); err != nil || n < 0 || n > most {
			return 0, fmt.Errorf("%s=%.40q is not a number from 0 to %d", name, s, most)
		}
		return n, nil
	}
	job, err1 := number("job", 1<<62)
	since, err2 := number("since", 1<<62)
	limit, err3 := number("limit", MaxLimit)
	wait, err4 := number("wait", int64(MaxWait/time.Second))
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			return Query{}, 0, err
		}
	}
	return Query{Job: slurm.JobID(job), Since: since, Limit: int(limit)}, time.Duration(wait) * time.Second, nil
}
