package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"unisched/bridge"
	"unisched/bridge/ask"
	"unisched/planner"
)

// Bounds of one request. An order waits for the loop's next cycle, hence its longer time.
const (
	maxOrderBytes    = 4 << 10
	maxQuestionBytes = 64 << 10
	headerTimeout    = 5 * time.Second
	readTimeout      = 10 * time.Second
	orderTimeout     = 60 * time.Second
	writeTimeout     = orderTimeout + 15*time.Second
	idleTimeout      = 30 * time.Second
	maxHeaderBytes   = 8 << 10
)

// Server answers on the control socket. View may be called from many goroutines; Order is given the order with By already set to the
// peer, and returns what happened in words. Operator says whether a uid may give orders.
type Server struct {
	View     func() *bridge.View
	Order    func(context.Context, bridge.Order) (string, error)
	Operator func(uid uint32) bool
	// Mounts are further read-only paths, each with its own handler: what the loop's view does not hold.
	Mounts map[string]http.Handler
	// Asker answers what-if questions; nil: they are not answered.
	Asker *ask.Asker
}

// Serve answers on l until ctx ends, and closes l. Requests in progress get a second to finish.
func (s Server) Serve(ctx context.Context, l net.Listener) error {
	return serveHTTP(ctx, newPeerListener(l), secured(s.handler()), "control socket")
}

func serveHTTP(ctx context.Context, l net.Listener, h http.Handler, what string) error {
	srv := &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: func(c context.Context, conn net.Conn) context.Context {
			if p, ok := conn.(*peerConn); ok {
				return context.WithValue(c, peerKey{}, p.uid)
			}
			return c
		},
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if srv.Shutdown(grace) != nil {
			srv.Close()
		}
	})
	err := srv.Serve(l)
	if !stop() {
		<-stopped
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

type peerKey struct{}

const notYet = "the daemon has not looked at Slurm yet: try again in a moment"

func (s Server) handler() http.Handler {
	mux := http.NewServeMux()
	for path, h := range s.Mounts {
		mux.Handle(path, h)
	}
	get := func(path string, answer func(*bridge.View, *http.Request) (any, error)) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				w.Header().Set("Allow", http.MethodGet)
				Refuse(w, http.StatusMethodNotAllowed, "only GET here")
				return
			}
			v := s.View()
			if v == nil {
				Refuse(w, http.StatusServiceUnavailable, notYet)
				return
			}
			doc, err := answer(v, r)
			if err != nil {
				Refuse(w, statusOf(err), err.Error())
				return
			}
			Reply(w, http.StatusOK, doc)
		})
	}
	get(PathStatus, func(v *bridge.View, _ *http.Request) (any, error) { return Status{View: *v}, nil })
	get(PathJobs, func(v *bridge.View, _ *http.Request) (any, error) {
		return Jobs{Schema: bridge.ViewSchema, Jobs: notNil(v.Jobs)}, nil
	})
	get(PathJob, func(v *bridge.View, r *http.Request) (any, error) {
		j, err := Find(v.Jobs, strings.TrimPrefix(r.URL.Path, PathJob))
		return Job{Schema: bridge.ViewSchema, Job: j}, err
	})
	get(PathPlan, func(v *bridge.View, _ *http.Request) (any, error) { return v.LastPlan, nil })
	get(PathPlanDiff, func(v *bridge.View, _ *http.Request) (any, error) { return planner.Diff(v.Before, v.LastPlan), nil })
	get(PathSnapshot, func(v *bridge.View, _ *http.Request) (any, error) { return v.Snapshot, nil })
	get(PathForecast, func(v *bridge.View, r *http.Request) (any, error) {
		since := time.Time{}
		if s := r.URL.Query().Get("since"); s != "" {
			t, err := time.Parse(time.RFC3339, s)
			if err != nil {
				return nil, fmt.Errorf("since %.40q is no RFC 3339 time", s)
			}
			since = t
		}
		return v.ForecastReport(since), nil
	})
	get(PathHistory, func(v *bridge.View, r *http.Request) (any, error) {
		j, err := Find(v.Jobs, strings.TrimPrefix(r.URL.Path, PathHistory))
		return historyOf(j), err
	})
	get(PathExplain, func(v *bridge.View, r *http.Request) (any, error) {
		j, err := Find(v.Jobs, strings.TrimPrefix(r.URL.Path, PathExplain))
		if err != nil {
			return nil, err
		}
		return s.explain(r, v, j), nil
	})
	mux.HandleFunc(PathWhatIf, s.whatIf)
	s.page(mux)
	mux.HandleFunc(PathOrder, s.order)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		Refuse(w, http.StatusNotFound, "no such path; this daemon speaks "+strings.Join(paths, ", "))
	})
	return mux
}

func notNil(jobs []bridge.JobView) []bridge.JobView {
	if jobs == nil {
		return []bridge.JobView{}
	}
	return jobs
}

func (s Server) order(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		Refuse(w, http.StatusMethodNotAllowed, "only POST here")
		return
	}
	uid, ok := r.Context().Value(peerKey{}).(uint32)
	if !ok || s.Operator == nil || !s.Operator(uid) {
		Refuse(w, http.StatusForbidden, fmt.Sprintf("uid %d may not give orders: it is not among daemon.operators of the configuration", uid))
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxOrderBytes))
	if err != nil {
		if _, big := errors.AsType[*http.MaxBytesError](err); big {
			Refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("an order has at most %d bytes", maxOrderBytes))
			return
		}
		Refuse(w, http.StatusBadRequest, "order: the body ended early")
		return
	}
	o, err := decodeOrder(body)
	if err != nil {
		Refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	o.By = fmt.Sprintf("uid %d", uid)
	ctx, cancel := context.WithTimeout(r.Context(), orderTimeout)
	defer cancel()
	text, err := s.Order(ctx, o)
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		Refuse(w, http.StatusGatewayTimeout, "the order was taken but no cycle has finished since: look at `unisched status`")
	case errors.Is(err, bridge.ErrNoSuchJob):
		Refuse(w, http.StatusNotFound, err.Error())
	case err != nil:
		Refuse(w, http.StatusConflict, err.Error())
	default:
		Reply(w, http.StatusOK, Result{Schema: bridge.ViewSchema, OK: true, Text: text})
	}
}

// helpTimeout bounds the what-ifs of one explanation, whatIfTimeout a question of its own.
const (
	helpTimeout   = 12 * time.Second
	whatIfTimeout = 20 * time.Second
)

// explain adds to an explanation what would change it, when that was asked for and the planner is free: it is an extra, and its lack no failure.
func (s Server) explain(r *http.Request, v *bridge.View, j bridge.JobView) ask.Explanation {
	if s.Asker == nil || r.URL.Query().Get("helps") == "" {
		return ask.Explain(v, j)
	}
	ctx, cancel := context.WithTimeout(r.Context(), helpTimeout)
	defer cancel()
	return s.Asker.Explain(ctx, v, j)
}

// whatIf answers a question about a job that does not exist. It reads, although it is a POST: nothing is changed by it.
func (s Server) whatIf(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		Refuse(w, http.StatusMethodNotAllowed, "only POST here")
		return
	case s.Asker == nil:
		Refuse(w, http.StatusNotFound, "this daemon answers no what-if questions here")
		return
	}
	v := s.View()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxQuestionBytes))
	if err != nil {
		Refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("a question has at most %d bytes", maxQuestionBytes))
		return
	}
	var q ask.Question
	dec := json.NewDecoder(strings.NewReader(string(body)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&q); err != nil {
		Refuse(w, http.StatusBadRequest, "question: "+err.Error())
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), whatIfTimeout)
	defer cancel()
	ans, err := s.Asker.WhatIf(ctx, v, q)
	switch {
	case errors.Is(err, ask.ErrBusy):
		Refuse(w, http.StatusTooManyRequests, err.Error())
	case errors.Is(err, ask.ErrQuestion):
		Refuse(w, http.StatusBadRequest, err.Error())
	case errors.Is(err, bridge.ErrNoBasis):
		Refuse(w, http.StatusServiceUnavailable, err.Error())
	case err != nil:
		Refuse(w, http.StatusGatewayTimeout, "the what-if was not solved in time: "+err.Error())
	default:
		Reply(w, http.StatusOK, ans)
	}
}

// decodeOrder is strict: an order with a misspelt member must not become an order for all jobs.
func decodeOrder(body []byte) (bridge.Order, error) {
	var o bridge.Order
	dec := json.NewDecoder(strings.NewReader(string(body)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&o); err != nil {
		return o, fmt.Errorf("order: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return o, errors.New("order: text after the object")
	}
	switch {
	case o.Kind != bridge.OrderPause && o.Kind != bridge.OrderResume && o.Kind != bridge.OrderRelease && o.Kind != bridge.OrderStage:
		return o, fmt.Errorf("order: %.32q is none of pause, resume, release, stage", o.Kind)
	case o.Kind != bridge.OrderStage && (o.Stage != "" || o.Partition != "" || o.Ready || o.Force):
		return o, fmt.Errorf("order: %s takes no stage", o.Kind)
	case len(o.Partition) > 256:
		return o, errors.New("order: partition is too long")
	case o.Job < 0:
		return o, fmt.Errorf("order: job %d is negative", o.Job)
	case o.Job != 0 && o.Kind != bridge.OrderRelease:
		return o, fmt.Errorf("order: %s is for all jobs and names none", o.Kind)
	}
	return o, nil
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, ErrNoJob):
		return http.StatusNotFound
	case errors.Is(err, ErrManyJobs):
		return http.StatusConflict
	}
	return http.StatusBadRequest
}

// Refuse answers with a Problem.
func Refuse(w http.ResponseWriter, status int, text string) {
	Reply(w, status, Problem{Schema: bridge.ViewSchema, Error: text})
}

// Reply answers with a document as JSON; one that cannot be written is a Problem.
func Reply(w http.ResponseWriter, status int, doc any) {
	b, err := json.Marshal(doc)
	if err != nil { // NaN or Inf in a document of ours: an answer all the same
		status = http.StatusInternalServerError
		b, _ = json.Marshal(Problem{Schema: bridge.ViewSchema, Error: "this document cannot be written: " + err.Error()})
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	w.Write(append(b, '\n'))
}
