package account

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"unisched/bridge"
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
			reply(w, http.StatusMethodNotAllowed, problem("only GET here"))
			return
		}
		since := time.Time{}
		if s := r.URL.Query().Get("since"); s != "" {
			var err error
			if since, err = time.Parse(time.RFC3339, s); err != nil {
				reply(w, http.StatusBadRequest, problem(fmt.Sprintf("since=%.40q is not an RFC 3339 time", s)))
				return
			}
		}
		turn <- struct{}{}
		list, err := Read(dir, since)
		<-turn
		if err != nil {
			reply(w, http.StatusInternalServerError, problem(err.Error()))
			return
		}
		if list == nil {
			list = []Entry{}
		}
		reply(w, http.StatusOK, Document{bridge.ViewSchema, list})
	})
}

func problem(text string) any {
	return struct {
		Schema int    `json:"schema_version"`
		Error  string `json:"error"`
	}{bridge.ViewSchema, text}
}

func reply(w http.ResponseWriter, status int, doc any) {
	b, err := json.Marshal(doc)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"schema_version":1,"error":"an entry cannot be written as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	w.Write(append(b, '\n'))
}
