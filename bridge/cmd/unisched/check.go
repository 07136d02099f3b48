package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"unisched/bridge"
	"unisched/bridge/check"
	"unisched/bridge/check/gather"
	"unisched/bridge/siteconfig"
)

// checkDoc is the answer of check. Snippet is there when it was asked for.
type checkDoc struct {
	Schema   int             `json:"schema_version"`
	At       time.Time       `json:"at"`
	Worst    check.Severity  `json:"worst"`
	Findings []check.Finding `json:"findings"`
	Snippet  *string         `json:"snippet,omitempty"`
}

func (a *app) checkCommand() *cobra.Command {
	var snippet, slurmConf string
	c := &cobra.Command{
		Use: "check", Short: "What of Slurm, accounting, nodes and this host is not as UniSched needs it", Args: cobra.NoArgs,
		Long: "Looks at slurm.conf as the controller runs it, at accounting, slurmrestd, partitions and nodes, and at token, journal folder, clock,\n" +
			"solver and configuration of this host. Each finding says what to change, and shows the line. It changes nothing. Run it as root.\n\n" +
			"Exit code 0 when all is well, 1 with an error among the findings, 3 with a warning, or when something could not be looked at.",
	}
	c.Flags().StringVar(&snippet, "fix-snippets", "", "write the lines for slurm.conf, and the commands to run, to `FILE` (default: standard output, findings go to standard error)")
	c.Flags().Lookup("fix-snippets").NoOptDefVal = "-"
	c.Flags().StringVar(&slurmConf, "slurm-conf", "", "slurm.conf on this host, to show lines of (default: where the controller has it)")
	c.RunE = do(func(cmd *cobra.Command, _ []string) error {
		findings := check.Run(a.look(slurmConf).Facts(cmd.Context()))
		doc := checkDoc{Schema: bridge.ViewSchema, At: a.now().UTC(), Worst: check.Worst(findings), Findings: findings}
		if snippet != "" {
			text := check.Snippet(findings)
			doc.Snippet = &text
		}
		if err := a.showCheck(doc, snippet); err != nil {
			return err
		}
		switch doc.Worst {
		case check.Error:
			return coded{exitError, nil}
		case check.Warning, check.Unseen:
			return coded{exitDegraded, nil}
		}
		return nil
	})
	return c
}

// look says where check looks.
func (a *app) look(slurmConf string) gather.Look {
	site, _, err := a.site()
	l := gather.Look{Now: a.now, Version: version, Site: site, SiteErr: err, SlurmConf: slurmConf, Socket: a.socket, LookupUID: lookupUID,
		Solve: a.solve}
	if l.SiteFrom = a.config; l.SiteFrom == "" {
		l.SiteFrom = a.env("UNISCHED_CONFIG")
	}
	if l.SiteFrom == "" {
		l.SiteFrom = siteconfig.DefaultPath
		if _, err := os.Stat(l.SiteFrom); err != nil {
			l.SiteFrom = "defaults (" + errors.Unwrap(err).Error() + ": " + l.SiteFrom + ")"
		}
	}
	if l.Socket == "" {
		l.Socket = a.env("UNISCHED_SOCKET")
	}
	if l.Socket == "" {
		l.Socket = site.Daemon.ControlSocket
	}
	return l
}

// showCheck writes the findings, and the snippet to where it was wanted.
func (a *app) showCheck(doc checkDoc, to string) error {
	if doc.Snippet != nil && to != "-" {
		if err := os.WriteFile(to, []byte(*doc.Snippet), 0o644); err != nil {
			return fmt.Errorf("snippet: %w", err)
		}
	}
	if a.output == "json" {
		return a.json(doc)
	}
	out := a.out
	if doc.Snippet != nil && to == "-" {
		fmt.Fprint(a.out, clean(*doc.Snippet, true))
		out = a.err
	}
	n := map[check.Severity]int{}
	for _, f := range doc.Findings {
		if n[f.Severity]++; f.Severity == check.OK {
			continue
		}
		fmt.Fprintf(out, "%-8s %s\n", strings.ToUpper(string(f.Severity)), indented(f.ID+": "+f.What))
		for _, row := range [][2]string{{"now", f.Have}, {"where", f.Where}, {"fix", f.Fix}, {"line", strings.Join(f.Want, "\n")}, {"run", strings.Join(f.Run, "\n")}} {
			for line := range strings.Lines(row[1]) {
				line = clean(strings.TrimSuffix(line, "\n"), false)
				if row[0] == "fix" {
					line = indented(line)
				}
				fmt.Fprintf(out, "  %-6s %s\n", row[0], line)
			}
		}
	}
	_, err := fmt.Fprintf(out, "%d errors, %d warnings, %d not seen, %d notes; %d ok\n",
		n[check.Error], n[check.Warning], n[check.Unseen], n[check.Note], n[check.OK])
	return err
}

// indented breaks a text at spaces into lines that fit beside its mark of nine cells. What is to be copied is never broken.
func indented(s string) string {
	var lines []string
	line := ""
	for word := range strings.SplitSeq(clean(s, false), " ") {
		if line != "" && columns(line)+1+columns(word) > width-9 {
			lines = append(lines, line)
			line = word
			continue
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return strings.Join(append(lines, line), "\n         ")
}
