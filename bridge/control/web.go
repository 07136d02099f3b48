package control

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"

	"unisched/bridge"
	"unisched/estimator"
)

//go:embed web/index.html web/app.css web/*.js
var webFiles embed.FS

// security is sent with every answer: the page needs nothing from elsewhere, nobody may frame it, and nothing that a user wrote may ever run.
const security = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// asset is one file of the page.
type asset struct {
	kind, etag string
	body       []byte
}

// assets reads the page's files. A file that is missing is a broken build.
func assets() map[string]asset {
	out := map[string]asset{}
	entries, err := webFiles.ReadDir("web")
	if err != nil {
		panic("control: the page is not in the binary: " + err.Error())
	}
	for _, e := range entries {
		body, err := webFiles.ReadFile("web/" + e.Name())
		if err != nil {
			panic("control: the page is not in the binary: " + err.Error())
		}
		kind := "text/javascript; charset=utf-8"
		switch {
		case strings.HasSuffix(e.Name(), ".html"):
			kind = "text/html; charset=utf-8"
		case strings.HasSuffix(e.Name(), ".css"):
			kind = "text/css; charset=utf-8"
		}
		sum := sha256.Sum256(body)
		out[e.Name()] = asset{kind, `"` + hex.EncodeToString(sum[:8]) + `"`, body}
	}
	return out
}

// secured adds the headers that every answer has.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", security)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache")
		next.ServeHTTP(w, r)
	})
}

// page adds the read-only page and its documents to a mux. It is the same on the socket and on TCP.
func (s Server) page(mux *http.ServeMux) {
	files, latest := assets(), &boards{}
	send := func(w http.ResponseWriter, r *http.Request, kind, etag string, body []byte) {
		w.Header().Set("ETag", etag)
		if r.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(http.StatusOK)
		if r.Method != http.MethodHead {
			w.Write(body)
		}
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		f := files["index.html"]
		send(w, r, f.kind, f.etag, f.body)
	})
	mux.HandleFunc("GET /web/{name}", func(w http.ResponseWriter, r *http.Request) {
		f, ok := files[r.PathValue("name")]
		if !ok {
			Refuse(w, http.StatusNotFound, "no such file")
			return
		}
		send(w, r, f.kind, f.etag, f.body)
	})
	mux.HandleFunc("GET "+PathBoard, func(w http.ResponseWriter, r *http.Request) {
		v := s.View()
		if v == nil {
			Refuse(w, http.StatusServiceUnavailable, notYet)
			return
		}
		raw, etag, err := latest.get(v)
		if err != nil {
			Refuse(w, http.StatusInternalServerError, "this document cannot be written: "+err.Error())
			return
		}
		send(w, r, "application/json", etag, raw)
	})
}

// History is the answer of PathHistory: what a job's own page shows besides the job.
type History struct {
	Schema    int                  `json:"schema_version"`
	Job       string               `json:"job"`
	Curve     []estimator.Point    `json:"curve"`     // the target metric as reported, thinned out
	Forecasts []estimator.Forecast `json:"forecasts"` // oldest first
}

func historyOf(j bridge.JobView) History {
	h := History{Schema: bridge.ViewSchema, Job: j.Ref, Curve: j.Curve, Forecasts: j.Forecasts}
	if h.Curve == nil {
		h.Curve = []estimator.Point{}
	}
	if h.Forecasts == nil {
		h.Forecasts = []estimator.Forecast{}
	}
	return h
}

// maxWebConns bounds the connections of the page.
const maxWebConns = 128

// ServeWeb answers on l with the page and the documents that only read, until ctx ends, and closes l. Orders are not taken there. hosts are the names under
// which the page may be asked for besides those of this machine's loopback: the names that the site's proxy passes on. A page of a stranger that
// has its own name point here gets nothing.
func (s Server) ServeWeb(ctx context.Context, l net.Listener, hosts []string) error {
	s.Order, s.Operator, s.Asker = nil, nil, nil
	inner := s.handler()
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !known(r.Host, hosts):
			Refuse(w, http.StatusMisdirectedRequest, fmt.Sprintf("the page is not served under the name %.80q: web.hosts of the configuration lists the names", r.Host))
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", http.MethodGet)
			Refuse(w, http.StatusMethodNotAllowed, "only GET here: orders are given on the control socket")
		default:
			inner.ServeHTTP(w, r)
		}
	})
	return serveHTTP(ctx, &capped{Listener: l, slots: make(chan struct{}, maxWebConns)}, secured(h), "page")
}

func known(host string, hosts []string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	if name == "localhost" {
		return true
	}
	if ip := net.ParseIP(name); ip != nil && ip.IsLoopback() {
		return true
	}
	for _, h := range hosts {
		if strings.EqualFold(h, name) {
			return true
		}
	}
	return false
}

// capped turns away connections beyond a number.
type capped struct {
	net.Listener
	slots chan struct{}
}

func (c *capped) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case c.slots <- struct{}{}:
			return &cappedConn{Conn: conn, done: func() { <-c.slots }}, nil
		default:
			conn.Close()
		}
	}
}

type cappedConn struct {
	net.Conn
	once sync.Once
	done func()
}

func (c *cappedConn) Close() error {
	c.once.Do(c.done)
	return c.Conn.Close()
}
