// Package browser drives a headless Chromium over its debugging pipe, for the tests and pictures of the web page: open, evaluate, press, click, wait, photograph.
//
// It speaks the little of the DevTools protocol that these need, and refuses to be more: no network interception, no second tab. The tests of the page call it.
package browser

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// ErrNone says that no Chromium is installed.
var ErrNone = errors.New("no chromium or google-chrome on the PATH")

// maxMessage bounds one message of the browser: a picture of a large window.
const maxMessage = 64 << 20

// Browser is a running Chromium with one page.
type Browser struct {
	cmd  *exec.Cmd
	dir  string
	to   io.WriteCloser
	done chan struct{} // closed when nothing more will be read

	mu       sync.Mutex
	id       int
	waiting  map[int]chan answer
	problems []string
	session  string
}

type answer struct {
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// Start runs a Chromium with an empty profile and opens a blank page. Close ends it.
func Start(ctx context.Context) (*Browser, error) {
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		return nil, ErrNone
	}
	dir, err := os.MkdirTemp("", "unisched-browser-")
	if err != nil {
		return nil, err
	}
	args := []string{"--headless=new", "--remote-debugging-pipe", "--user-data-dir=" + dir, "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage",
		"--disable-extensions", "--disable-background-networking", "--disable-sync", "--disable-component-update", "--hide-scrollbars", "--force-color-profile=srgb",
		"--lang=en-GB", "about:blank"}
	if os.Getuid() == 0 { // in a container; the pages are ours
		args = append([]string{"--no-sandbox"}, args...)
	}
	b := &Browser{dir: dir, waiting: map[int]chan answer{}, done: make(chan struct{})}
	theirs, to, err := os.Pipe() // they read, we write
	if err != nil {
		return nil, err
	}
	from, theirsToo, err := os.Pipe() // we read, they write
	if err != nil {
		return nil, err
	}
	b.cmd = exec.Command(path, args...)
	b.cmd.Env = append(os.Environ(), "TZ=Europe/Berlin", "LANGUAGE=en_GB", "HOME="+dir)
	b.cmd.ExtraFiles = []*os.File{theirs, theirsToo} // descriptors 3 and 4
	b.to = to
	if err := b.cmd.Start(); err != nil {
		os.RemoveAll(dir)
		return nil, fmt.Errorf("chromium: %w", err)
	}
	theirs.Close()
	theirsToo.Close()
	go b.read(from)
	if err := b.attach(ctx); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

// attach takes hold of the first page.
func (b *Browser) attach(ctx context.Context) error {
	var made struct {
		ID string `json:"targetId"`
	}
	if err := b.call(ctx, "Target.createTarget", map[string]any{"url": "about:blank"}, &made); err != nil {
		return err
	}
	var at struct {
		ID string `json:"sessionId"`
	}
	if err := b.call(ctx, "Target.attachToTarget", map[string]any{"targetId": made.ID, "flatten": true}, &at); err != nil {
		return err
	}
	b.session = at.ID
	for _, domain := range []string{"Page.enable", "Runtime.enable", "Log.enable", "Performance.enable"} {
		if err := b.call(ctx, domain, nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the browser and removes its profile.
func (b *Browser) Close() {
	b.to.Close()
	select { // a closed pipe ends it
	case <-b.done:
	case <-time.After(5 * time.Second):
	}
	b.cmd.Process.Kill()
	b.cmd.Wait()
	os.RemoveAll(b.dir)
}

func (b *Browser) read(from io.ReadCloser) {
	defer close(b.done)
	defer from.Close()
	in := bufio.NewReaderSize(from, 1<<20)
	for {
		raw, err := in.ReadBytes(0)
		if err != nil || len(raw) > maxMessage {
			return
		}
		var m struct {
			ID     int             `json:"id"`
			Method string          `json:"method"`
			Params json.RawMessage `json:"params"`
			answer
		}
		if json.Unmarshal(raw[:len(raw)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		if m.ID != 0 {
			if c := b.waiting[m.ID]; c != nil {
				delete(b.waiting, m.ID)
				c <- m.answer
			}
		} else if text := problem(m.Method, m.Params); text != "" {
			b.problems = append(b.problems, text)
		}
		b.mu.Unlock()
	}
}

// problem is an event that says that the page is at fault: an exception, an error in the console, a broken rule of its content policy.
func problem(method string, params json.RawMessage) string {
	switch method {
	case "Runtime.exceptionThrown":
		return string(params)
	case "Log.entryAdded":
		var e struct {
			Entry struct{ Level, Text, URL string } `json:"entry"`
		}
		if json.Unmarshal(params, &e) == nil && e.Entry.Level == "error" {
			return e.Entry.Text + " " + e.Entry.URL
		}
	case "Runtime.consoleAPICalled":
		var e struct{ Type string }
		if json.Unmarshal(params, &e) == nil && e.Type == "error" {
			return string(params)
		}
	}
	return ""
}

// Problems returns what the page did wrong so far.
func (b *Browser) Problems() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.problems...)
}

func (b *Browser) call(ctx context.Context, method string, params any, out any) error {
	c := make(chan answer, 1)
	b.mu.Lock()
	b.id++
	id := b.id
	b.waiting[id] = c
	b.mu.Unlock()
	msg := map[string]any{"id": id, "method": method}
	if params != nil {
		msg["params"] = params
	}
	if b.session != "" {
		msg["sessionId"] = b.session
	}
	raw, err := json.Marshal(msg)
	if err != nil {
		return err
	}
	if _, err := b.to.Write(append(raw, 0)); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case a := <-c:
		if a.Error != nil {
			return fmt.Errorf("%s: %s", method, a.Error.Message)
		}
		if out == nil {
			return nil
		}
		return json.Unmarshal(a.Result, out)
	case <-b.done:
		return fmt.Errorf("%s: the browser has ended", method)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, ctx.Err())
	}
}

// Open goes to an address and waits until the document has loaded.
func (b *Browser) Open(ctx context.Context, url string) error {
	if err := b.call(ctx, "Page.navigate", map[string]any{"url": url}, nil); err != nil {
		return err
	}
	return b.Wait(ctx, `document.readyState === "complete" && location.href !== "about:blank"`)
}

// Eval evaluates an expression in the page and decodes its value, a promise's when it is settled, into out (nil: dropped).
func (b *Browser) Eval(ctx context.Context, expr string, out any) error {
	var r struct {
		Result    struct{ Value json.RawMessage } `json:"result"`
		Exception *struct {
			Text      string
			Exception struct{ Description string }
		} `json:"exceptionDetails"`
	}
	if err := b.call(ctx, "Runtime.evaluate", map[string]any{"expression": expr, "returnByValue": true, "awaitPromise": true}, &r); err != nil {
		return err
	}
	if r.Exception != nil {
		return fmt.Errorf("%.120s: %s %s", expr, r.Exception.Text, r.Exception.Exception.Description)
	}
	if out == nil || len(r.Result.Value) == 0 {
		return nil
	}
	return json.Unmarshal(r.Result.Value, out)
}

// Wait waits until an expression is true, frame by frame.
func (b *Browser) Wait(ctx context.Context, expr string) error {
	for {
		ok := false
		err := b.Eval(ctx, "!!("+expr+")", &ok)
		if err == nil && ok {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("never true: %s: %w", expr, ctx.Err())
		}
		// A navigation in between makes Eval fail; the page's own clock paces the next look.
		if b.Eval(ctx, "new Promise(r => setTimeout(r, 20))", nil) != nil {
			select {
			case <-ctx.Done():
			case <-b.done:
				return errors.New("the browser has ended")
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
}

// keyCodes are those of the keys with names; letters speak for themselves.
var keyCodes = map[string]int{"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Tab": 9}

// Press presses and releases a key by its name in the DOM ("ArrowDown", "/", "a").
func (b *Browser) Press(ctx context.Context, key string) error {
	down := map[string]any{"type": "keyDown", "key": key}
	if code, ok := keyCodes[key]; ok {
		down["windowsVirtualKeyCode"], down["code"] = code, key
		if key == "Enter" {
			down["text"] = "\r"
		}
	} else {
		down["text"] = key
	}
	if err := b.call(ctx, "Input.dispatchKeyEvent", down, nil); err != nil {
		return err
	}
	up := map[string]any{"type": "keyUp", "key": key, "windowsVirtualKeyCode": keyCodes[key]}
	return b.call(ctx, "Input.dispatchKeyEvent", up, nil)
}

// Type presses one key after the other.
func (b *Browser) Type(ctx context.Context, text string) error {
	for _, r := range text {
		if err := b.Press(ctx, string(r)); err != nil {
			return err
		}
	}
	return nil
}

// Click presses the mouse in the middle of what a selector finds.
func (b *Browser) Click(ctx context.Context, selector string) error {
	q, err := json.Marshal(selector)
	if err != nil {
		return err
	}
	var at *struct{ X, Y float64 }
	if err := b.Eval(ctx, `(() => { const e = document.querySelector(`+string(q)+`); if (!e) return null; e.scrollIntoView({block: "nearest"}); const r = e.getBoundingClientRect(); return {x: r.x + r.width / 2, y: r.y + r.height / 2}; })()`, &at); err != nil {
		return err
	}
	if at == nil {
		return fmt.Errorf("nothing is %s", selector)
	}
	return b.ClickAt(ctx, at.X, at.Y)
}

// ClickAt presses the mouse at a point of the window, in CSS pixels.
func (b *Browser) ClickAt(ctx context.Context, x, y float64) error {
	for _, kind := range []string{"mouseMoved", "mousePressed", "mouseReleased"} {
		e := map[string]any{"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1}
		if kind == "mouseMoved" {
			e["button"] = "none"
		}
		if err := b.call(ctx, "Input.dispatchMouseEvent", e, nil); err != nil {
			return err
		}
	}
	return nil
}

// Look sets the window: its size in CSS pixels, the pixels of a CSS pixel, a phone's manners, and whether it prefers dark colours.
func (b *Browser) Look(ctx context.Context, width, height int, scale float64, phone, dark bool) error {
	if err := b.call(ctx, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": scale, "mobile": phone}, nil); err != nil {
		return err
	}
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	return b.call(ctx, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// Picture photographs what the window shows, as PNG.
func (b *Browser) Picture(ctx context.Context) ([]byte, error) {
	var r struct{ Data string }
	if err := b.call(ctx, "Page.captureScreenshot", map[string]any{"format": "png"}, &r); err != nil {
		return nil, err
	}
	return base64.StdEncoding.DecodeString(r.Data)
}

// Metrics are Chromium's own counters of the page ("ScriptDuration", "TaskDuration", in seconds).
func (b *Browser) Metrics(ctx context.Context) (map[string]float64, error) {
	var r struct {
		Metrics []struct {
			Name  string
			Value float64
		}
	}
	if err := b.call(ctx, "Performance.getMetrics", nil, &r); err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for _, m := range r.Metrics {
		out[m.Name] = m.Value
	}
	return out, nil
}
