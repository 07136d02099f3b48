package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"unisched/slurm/comment"
)

// What a shell script does at the checkpoint signal can be read out of it when it is plain: a trap for that signal, whose text or function ends with an exit of a number. Whatever is
// not plain (variables, sourced files, other languages) is passed over in silence: this warns, and refuses to judge.

var (
	trapLine  = regexp.MustCompile(`(?m)^[ \t]*trap[ \t]+(?:--[ \t]+)?('[^']*'|"[^"]*"|[^\s'"]+)[ \t]+([A-Z0-9a-z \t+]+?)[ \t]*(?:$|[;#&|])`)
	exitWord  = regexp.MustCompile(`(?:^|[\s;{&|('"])exit(?:[ \t]+([^\s;&|})'"]+))?(?:[\s;&|})'"]|$)`)
	plainName = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)
)

// linux has the numbers of the signals that may be asked for.
var linux = map[string]string{"HUP": "1", "INT": "2", "QUIT": "3", "USR1": "10", "USR2": "12", "TERM": "15", "CONT": "18"}

// lintNote is something about the script besides its comment.
type lintNote struct {
	Line int    `json:"line,omitempty"` // 0: of the whole script
	Text string `json:"text"`
}

// trapNotes says which traps of a shell script leave with another code than the one that sends the job back. site is the code of the site.
func trapNotes(text string, w comment.Wish, site int) []lintNote {
	if w.Ckpt.None || w.Ckpt.Signal == "" || strings.Contains(text, "unisched-node run") { // the sidecar turns exit codes into the right one
		return nil
	}
	want := cmp.Or(w.Ckpt.Exit, site)
	var notes []lintNote
	for _, m := range trapLine.FindAllStringSubmatchIndex(text, 64) {
		if !traps(text[m[4]:m[5]], w.Ckpt.Signal) {
			continue
		}
		body, at := text[m[2]:m[3]], m[2]
		code, offset, ok := lastExit(body)
		for _, name := range plainName.FindAllString(body, 16) {
			if ok {
				break
			}
			var f int
			if body, f = function(text, name); f >= 0 {
				at = f
				code, offset, ok = lastExit(body)
			}
		}
		n, err := strconv.Atoi(code)
		if !ok || code != "" && (err != nil || n == want) {
			continue
		}
		line := 1 + strings.Count(text[:at+offset], "\n")
		says := fmt.Sprintf("exits %d", n)
		if code == "" {
			says = "exits with whatever came last"
		}
		text := fmt.Sprintf("the trap for %s %s: say exit %d, which sends the job back to the queue", w.Ckpt.Signal, says, want)
		if code == "0" {
			text += "; after exit 0 Slurm takes it for finished, and starts the jobs that wait for its end"
		}
		notes = append(notes, lintNote{line, text})
	}
	return notes
}

// traps reports whether the words after a trap's command name the signal.
func traps(words, signal string) bool {
	return slices.ContainsFunc(strings.Fields(words), func(w string) bool {
		return strings.TrimPrefix(strings.ToUpper(w), "SIG") == signal || w == linux[signal]
	})
}

// lastExit finds the last exit of a piece of shell, its code ("" for none) and where it stands.
func lastExit(body string) (code string, offset int, ok bool) {
	all := exitWord.FindAllStringSubmatchIndex(body, -1)
	if len(all) == 0 {
		return "", 0, false
	}
	m := all[len(all)-1]
	if m[2] >= 0 {
		code = body[m[2]:m[3]]
	}
	return code, strings.Index(body[m[0]:m[1]], "exit") + m[0], true
}

// function finds the body of a shell function, up to a closing brace at the beginning of a line or the one on its own line, and where it begins; -1 for none.
func function(text, name string) (body string, at int) {
	head := regexp.MustCompile(`(?m)^[ \t]*(?:function[ \t]+)?` + regexp.QuoteMeta(name) + `[ \t]*(?:\(\))?[ \t\n]*\{`)
	m := head.FindStringIndex(text)
	if m == nil {
		return "", -1
	}
	rest := text[m[1]:]
	end := len(rest)
	if line, _, _ := strings.Cut(rest, "\n"); strings.Contains(line, "}") {
		end = strings.LastIndex(line, "}")
	} else if i := strings.Index(rest, "\n}"); i >= 0 {
		end = i
	}
	return rest[:end], m[1]
}
