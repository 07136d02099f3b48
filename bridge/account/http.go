package account

import (
	"fmt"
	"net/http"
	"time"

	"unisched/bridge"
	"unisched/bridge/control"
)

// Path is where the control socket answers: GET [?since=RFC 3339]: Document.
const Path = "/v1/ended"

// Document is an answer as JSON.
type Document struct {
	Schema int     `json:"schema_version"`
	Jobs   []Entry `json:"jobs"`
}

// Handler answers Path from the files in dir; at most one question is answered at a time.
func Handler(dir string) http.Handler {
	turn := make(chan struct{}, 1)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.Header().Set("Allow", http.MethodGet)
			control.Refuse(w, http.StatusMethodNotAllowed, "only GET here")
			return
		}
		since := time.Time{}
		if s := r.URL.Query().Get("since"); s != "" {
			var err error
			if since, err = time.Parse(time.RFC3339, s); err != nil {
				control.Refuse(w, http.StatusBadRequest, fmt.Sprintf("since=%.40q is not an RFC 3339 time", s))
				return
			}
		}
		turn <- struct{}{}
		list, err := Read(dir, since)
		<-turn
		if err != nil {
			control.Refuse(w, http.StatusInternalServerError, err.Error())
			return
		}
		if list == nil {
			list = []Entry{}
		}
		control.Reply(w, http.StatusOK, Document{bridge.ViewSchema, list})
	})
}
