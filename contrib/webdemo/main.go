// Command webdemo shows the daemon's web page with a simulated cluster, for whoever works on the page: the loop of the daemon in virtual time, seeded, served as
// the daemon would. Nothing of Slurm is needed.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"sync/atomic"
	"time"

	"unisched/bridge"
	"unisched/bridge/ask"
	"unisched/bridge/control"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8321", "loopback address")
	socket := flag.String("socket", "", "also a control socket, for the command line")
	var s scene
	flag.IntVar(&s.nodes, "nodes", 12, "nodes of 8 GPUs")
	flag.IntVar(&s.jobs, "jobs", 150, "jobs")
	flag.Uint64Var(&s.seed, "seed", 7, "seed")
	flag.DurationVar(&s.from, "from", 4*time.Hour, "virtual time at which the page begins")
	flag.IntVar(&s.views, "views", 12, "views, one a unit, shown in turn")
	every := flag.Duration("every", 10*time.Second, "how long each is shown")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, s, *listen, *socket, *every); err != nil {
		fmt.Fprintln(os.Stderr, "webdemo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s scene, listen, socket string, every time.Duration) error {
	views, err := s.play(ctx)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	var now atomic.Pointer[bridge.View]
	now.Store(views[0])
	go func() {
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-time.After(every):
				now.Store(views[min(i+1, len(views)-1)])
			}
		}
	}()
	fmt.Printf("http://%s/ with %d jobs on %d nodes\n", l.Addr(), len(views[0].Jobs), s.nodes)
	api := control.Server{View: now.Load, Operator: func(uint32) bool { return false }, Asker: &ask.Asker{Clock: func() time.Time { return now.Load().At }}}
	if socket != "" {
		u, err := control.Listen(socket, 0o600, -1)
		if err != nil {
			return err
		}
		go func() { fmt.Fprintln(os.Stderr, "control socket:", api.Serve(ctx, u)) }()
	}
	return api.ServeWeb(ctx, l, nil)
}
