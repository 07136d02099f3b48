// Command photo takes pictures of a running web page in light, dark and at a phone's width, and of one job, for the documentation.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"unisched/contrib/browser"
)

func main() {
	url := flag.String("url", "http://127.0.0.1:8321/", "the page")
	out := flag.String("out", "out/web", "folder")
	job := flag.String("job", "", "a job's id for the picture of its page")
	flag.Parse()
	if err := run(*url, *out, *job); err != nil {
		fmt.Fprintln(os.Stderr, "photo:", err)
		os.Exit(1)
	}
}

func run(url, out, job string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	b, err := browser.Start(ctx)
	if err != nil {
		return err
	}
	defer b.Close()
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, s := range []struct {
		name, hash, key string
		w, h            int
		phone, dark     bool
	}{
		{"light", "", "", 1400, 820, false, false}, {"dark", "", "", 1400, 820, false, true}, {"jobs", "", "g", 1400, 820, false, false},
		{"phone", "", "", 390, 844, true, false}, {"job", job, "", 1100, 900, false, false}, {"job-dark", job, "", 1100, 900, false, true}, {"job-phone", job, "", 390, 844, true, true},
	} {
		if s.hash == "" && len(s.name) > 2 && s.name[:3] == "job" && s.name != "jobs" {
			continue
		}
		if err := b.Look(ctx, s.w, s.h, 1, s.phone, s.dark); err != nil {
			return err
		}
		if err := b.Open(ctx, "about:blank#"+s.name); err != nil {
			return err
		}
		address := url
		if s.hash != "" {
			address += "#job=" + s.hash
		}
		if err := b.Open(ctx, address); err != nil {
			return err
		}
		ready := `typeof state === "object" && state.board`
		if s.hash != "" {
			ready += ` && document.getElementById("job").open`
		}
		if err := b.Wait(ctx, ready); err != nil {
			return err
		}
		if s.key != "" {
			if err := b.Press(ctx, s.key); err != nil {
				return err
			}
		}
		if err := b.Eval(ctx, "new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))", nil); err != nil {
			return err
		}
		png, err := b.Picture(ctx)
		if err != nil {
			return err
		}
		if png, err = small(png); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, "page-"+s.name+".png"), png, 0o644); err != nil {
			return err
		}
	}
	for _, p := range b.Problems() {
		fmt.Fprintln(os.Stderr, "the page complained:", p)
	}
	return nil
}
