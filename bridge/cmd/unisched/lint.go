package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"unisched/bridge"
	"unisched/slurm/comment"
)

// maxLintBytes is far beyond what sbatch takes, so that what is too long is judged and not merely refused.
const maxLintBytes = 1 << 20

// script is one comment to be judged and where it was found.
type script struct {
	text string
	file string // "" for one given on the command line
	line int
	body string // of the whole file
}

// lintDoc is the answer of lint and of parse comment.
type lintDoc struct {
	Schema  int        `json:"schema_version"`
	Verdict string     `json:"verdict"` // valid, none, bad
	Bytes   int        `json:"bytes"`
	File    string     `json:"file,omitempty"`
	Line    int        `json:"line,omitempty"`
	Error   *lintError `json:"error,omitempty"`
	Wish    *wishDoc   `json:"wish,omitempty"`
	// Rules are the site's, of who may use its class: whether this job may depends on its QOS and account.
	Rules string `json:"rules,omitempty"`
	// Notes are about the script, not about its comment.
	Notes []lintNote `json:"notes,omitempty"`
}

type lintError struct {
	Offset  int    `json:"offset"` // byte of the comment
	Key     string `json:"key,omitempty"`
	Reason  string `json:"reason"`
	Suggest string `json:"suggest,omitempty"`
}

// wishDoc is a wish with defaults filled in and instants made absolute.
type wishDoc struct {
	Class      string   `json:"class"`
	Deadlines  []dueDoc `json:"deadlines,omitempty"`
	Stop       string   `json:"stop"`
	Iterations int64    `json:"iterations,omitempty"`
	Metric     string   `json:"metric,omitempty"`
	Op         string   `json:"op,omitempty"`
	Target     *float64 `json:"target,omitempty"`
	Max        int64    `json:"max,omitempty"`
	GPUs       []int    `json:"gpus,omitempty"`
	Batch      string   `json:"batch"`
	Parallel   string   `json:"parallel"`
	Ckpt       string   `json:"ckpt"`
	RestoreS   float64  `json:"restore_s,omitempty"`
	Milestones []int    `json:"milestones,omitempty"`
	Epoch      int64    `json:"epoch,omitempty"`
	Profile    string   `json:"profile"`
}

type dueDoc struct {
	At    time.Time `json:"at"`
	Value float64   `json:"value"`
}

func (a *app) lintCommand() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use: "lint [STRING|-]", Short: "Check what you write for UniSched before sbatch does",
		Long: "Judges the text of sbatch's --comment, given as an argument, on standard input (-), or in the #SBATCH lines of a script (--file).\n" +
			"Exit code 0 when it is valid or holds nothing for UniSched, 1 when it is bad.",
		Args: cobra.MaximumNArgs(1),
	}
	c.Flags().StringVar(&file, "file", "", "job `script` whose #SBATCH --comment is checked")
	c.RunE = do(func(cmd *cobra.Command, args []string) error {
		if (len(args) == 1) == (file != "") {
			return coded{exitUsage, errors.New("lint: want a comment, - for standard input, or --file SCRIPT")}
		}
		switch {
		case file != "":
			raw, err := a.read(file, maxLintBytes)
			if err != nil {
				return err
			}
			return a.lint(inScript(file, string(raw)))
		case args[0] == "-":
			raw, err := a.read("-", maxLintBytes)
			if err != nil {
				return err
			}
			return a.lint(script{text: strings.TrimSuffix(string(raw), "\n")})
		}
		if info, err := os.Stat(args[0]); err == nil && info.Mode().IsRegular() {
			fmt.Fprintf(a.err, "%s is a file, read here as a comment; its #SBATCH lines: unisched lint --file %s\n", clean(args[0], false), clean(args[0], false))
		}
		return a.lint(script{text: args[0]})
	})
	return c
}

// lint judges one comment.
func (a *app) lint(s script) error {
	zone, requeue := time.UTC, bridge.Defaults().RequeueExit
	var rules bridge.Admission
	if site, _, err := a.site(); err == nil { // a broken site configuration is not the user's fault
		zone, rules, requeue = site.Bridge.Zone, site.Bridge.Admission, site.Bridge.RequeueExit
	}
	w, err := comment.Parse(s.text, comment.Context{Now: a.now(), Zone: zone})
	doc := judge(s, w, err)
	if doc.Wish != nil {
		doc.Rules = rules.Rules(w.Class)
		doc.Notes = trapNotes(s.body, w, requeue)
		if text := bridge.LauncherAdvice(s.body, w.Ckpt); text != "" {
			doc.Notes = append(doc.Notes, lintNote{Text: text})
		}
	}
	if a.output == "json" {
		if err := a.json(doc); err != nil {
			return err
		}
	} else {
		a.verdict(doc, s, w)
		if h := advice(w); err == nil && h != "" {
			fmt.Fprintln(a.err, h)
		}
	}
	if doc.Verdict == "bad" {
		return coded{exitError, nil}
	}
	return nil
}

// advice tells of a wish that is valid and probably not what its user means.
func advice(w comment.Wish) string {
	if len(w.GPUs) > 1 && w.Batch == comment.LocalBatch && w.Stop.Kind == "iters" {
		return "note: with batch=local more GPUs do not end a declared number of iterations sooner, so the job will run on few;\n" +
			"      say batch=global if the batch over all GPUs stays the same when their number changes"
	}
	return ""
}

func judge(s script, w comment.Wish, err error) lintDoc {
	doc := lintDoc{Schema: bridge.ViewSchema, Verdict: "valid", Bytes: len(s.text), File: s.file, Line: s.line}
	var bad *comment.Error
	switch {
	case err == nil:
		doc.Wish = wish(w)
	case errors.Is(err, comment.ErrNone):
		doc.Verdict = "none"
	case errors.As(err, &bad):
		doc.Verdict, doc.Error = "bad", &lintError{bad.Offset, bad.Key, bad.Reason, bad.Suggest}
	default:
		doc.Verdict, doc.Error = "bad", &lintError{Reason: err.Error()}
	}
	return doc
}

func wish(w comment.Wish) *wishDoc {
	d := &wishDoc{Class: string(w.Class), Stop: string(w.Stop.Kind), Iterations: w.Stop.Iterations, Max: w.Max, GPUs: w.GPUs,
		Batch: string(w.Batch), Parallel: string(w.Parallel), Ckpt: w.Ckpt.String(), RestoreS: w.Restore.Seconds(),
		Milestones: w.Milestones, Epoch: w.Epoch, Profile: string(w.Profile)}
	for _, t := range w.Tiers {
		d.Deadlines = append(d.Deadlines, dueDoc{t.At, t.Value})
	}
	if w.Stop.Kind == comment.StopMetric {
		d.Metric, d.Op, d.Target = w.Stop.Metric, string(w.Stop.Op), &w.Stop.Target
	}
	return d
}

func (a *app) verdict(doc lintDoc, s script, w comment.Wish) {
	where := ""
	if doc.File != "" {
		where = fmt.Sprintf("%s:%d: ", doc.File, doc.Line)
		if doc.Line == 0 {
			where = doc.File + ": "
		}
	}
	switch doc.Verdict {
	case "valid":
		fmt.Fprintf(a.out, "%svalid\n%s", clean(where, false), comment.Echo(w))
		if doc.Rules != "" {
			item(a.out, "note", "%s", doc.Rules)
		}
		if w.Ckpt.None {
			item(a.out, "note", "without ckpt the job is never preempted and never profiled: UniSched helps it least")
		}
		for _, n := range doc.Notes {
			where := ""
			if n.Line > 0 {
				where = fmt.Sprintf("line %d: ", n.Line)
			}
			item(a.out, "note", "%s%s", where, n.Text)
		}
	case "none":
		fmt.Fprintf(a.out, "%snothing for UniSched: the job runs as a plain Slurm job\n", clean(where, false))
		if word := comment.Misspelt(s.text); word != "" {
			fmt.Fprintf(a.err, "note: only what follows \"unisched:\" is read, and the comment says %q\n", clean(word, false))
		}
	default:
		e := doc.Error
		fmt.Fprintf(a.out, "%sbad: byte %d", clean(where, false), e.Offset)
		if e.Key != "" {
			fmt.Fprintf(a.out, ": %s", clean(e.Key, false))
		}
		fmt.Fprintf(a.out, ": %s\n", clean(e.Reason, false))
		if e.Suggest != "" {
			fmt.Fprintf(a.out, "try: %s\n", clean(e.Suggest, false))
		}
		fmt.Fprintln(a.out, "As it is, the job would run as a plain Slurm job, without UniSched.")
	}
}

// inScript finds the comment of a job script as sbatch does: in the #SBATCH lines before the first command, the last one wins.
func inScript(file, text string) script {
	found := script{file: file, body: text}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		rest, ok := strings.CutPrefix(line, "#SBATCH")
		switch {
		case ok && rest != "" && (rest[0] == ' ' || rest[0] == '\t'):
			if c, ok := commentOption(rest); ok {
				found.text, found.line = c, i+1
			}
		case strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "":
		default:
			return found
		}
	}
	return found
}

// commentOption reads --comment out of one #SBATCH line: words split at white space, quotes of both kinds, # begins a remark.
func commentOption(line string) (string, bool) {
	words := split(line)
	found, ok := "", false
	for i, w := range words {
		if v, is := strings.CutPrefix(w, "--comment="); is {
			found, ok = v, true
		} else if w == "--comment" && i+1 < len(words) {
			found, ok = words[i+1], true
		}
	}
	return found, ok
}

func split(line string) []string {
	var words []string
	var b strings.Builder
	quote, inWord := byte(0), false
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case c == '\\' && quote != '\'' && i+1 < len(line):
			i++
			b.WriteByte(line[i])
			inWord = true
		case quote != 0:
			b.WriteByte(c)
		case c == '"' || c == '\'':
			quote, inWord = c, true
		case c == ' ' || c == '\t':
			if inWord {
				words = append(words, b.String())
				b.Reset()
				inWord = false
			}
		case c == '#' && !inWord:
			return words
		default:
			b.WriteByte(c)
			inWord = true
		}
	}
	if inWord {
		words = append(words, b.String())
	}
	return words
}
