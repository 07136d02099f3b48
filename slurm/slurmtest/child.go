package slurmtest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
)

// Load is what a child process serves.
type Load struct {
	Jobs, Nodes int
	Ours        int  // of the jobs, spread evenly, have a comment of ours
	Churn       int  // jobs that end, begin or come at each GET /churn
	Pretty      bool // JSON with white space
}

const childVariable = "UNISCHED_SLURMTEST_LOAD"

// MaybeServe makes a test binary the server of a benchmark, in a process of its own, so that what is measured is the reader alone. TestMain calls it
// first; in any other process it does nothing.
func MaybeServe() {
	text := os.Getenv(childVariable)
	if text == "" {
		return
	}
	var l Load
	if _, err := fmt.Sscan(text, &l.Jobs, &l.Nodes, &l.Ours, &l.Churn, &l.Pretty); err != nil {
		panic(err)
	}
	panic(l.serve())
}

func (l Load) serve() error {
	c := New(l.Jobs, l.Nodes)
	c.Pretty = l.Pretty
	c.Change(func(jobs []Job, nodes []Node) ([]Job, []Node) {
		for i := range l.Ours {
			jobs[i*len(jobs)/l.Ours].Comment = "unisched:ckpt=USR1,stop=iters:10000"
		}
		return jobs, nodes
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + ln.Addr().String())
	next := 1
	mux := http.NewServeMux()
	mux.HandleFunc("/churn", func(http.ResponseWriter, *http.Request) {
		c.Change(func(jobs []Job, nodes []Node) ([]Job, []Node) {
			for range l.Churn {
				j := &jobs[next%len(jobs)]
				switch j.State {
				case "RUNNING":
					j.State, j.Nodes = "COMPLETED", ""
				case "PENDING":
					j.State = "CANCELLED"
				default:
					j.State, j.Reason = "PENDING", "Resources"
				}
				next += 7
			}
			return jobs, nodes
		})
	})
	mux.Handle("/", c)
	go func() { io.Copy(io.Discard, os.Stdin); os.Exit(0) }() // ends with its parent
	return http.Serve(ln, mux)
}

// Start runs the server as a child of a test binary whose TestMain calls MaybeServe. stop ends it.
func (l Load) Start() (url string, stop func(), err error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d %d %d %v", childVariable, l.Jobs, l.Nodes, l.Ours, l.Churn, l.Pretty))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() { in.Close(); cmd.Wait() }
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, err
	}
	return strings.TrimSpace(line), stop, nil
}
