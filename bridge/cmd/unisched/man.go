package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manCommand writes the man pages, one for each command, for whoever packs them. It is not shown in the help.
func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write the man pages", Args: cobra.ExactArgs(1), Hidden: true,
		RunE: do(func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			return writePages(args[0], cmd.Root())
		}),
	}
}

func writePages(dir string, c *cobra.Command) error {
	if c.Hidden || c.Name() == "help" || c.IsAdditionalHelpTopicCommand() {
		return nil
	}
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	if err := os.WriteFile(filepath.Join(dir, name+".1"), []byte(manPage(c)), 0o644); err != nil {
		return err
	}
	for _, sub := range c.Commands() {
		if err := writePages(dir, sub); err != nil {
			return err
		}
	}
	return nil
}

// troff makes text harmless: a backslash, a leading dot or quote and a minus mean something to it.
func troff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}

// manPage is the page of one command.
func manPage(c *cobra.Command) string {
	var b strings.Builder
	name := strings.ReplaceAll(c.CommandPath(), " ", "-")
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"UniSched\" \"User Commands\"\n", strings.ToUpper(troff(name)))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", troff(name), troff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", troff(c.UseLine()))
	if long := c.Long; long != "" {
		fmt.Fprintf(&b, ".SH DESCRIPTION\n%s\n", strings.ReplaceAll(troff(long), "\n\n", "\n.PP\n"))
	}
	options := func(title string, set *pflag.FlagSet) {
		first := true
		set.VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			if first {
				fmt.Fprintf(&b, ".SH %s\n", title)
				first = false
			}
			kind, usage := pflag.UnquoteUsage(f)
			b.WriteString(".TP\n.B ")
			if f.Shorthand != "" {
				fmt.Fprintf(&b, "\\-%s, ", f.Shorthand)
			}
			fmt.Fprintf(&b, "\\-\\-%s", troff(f.Name))
			if kind != "" {
				fmt.Fprintf(&b, " %s", troff(kind))
			}
			fmt.Fprintf(&b, "\n%s\n", troff(usage))
		})
	}
	options("OPTIONS", c.NonInheritedFlags())
	options("OPTIONS OF ALL COMMANDS", c.InheritedFlags())
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", troff(c.Example))
	}
	var subs []string
	for _, s := range c.Commands() {
		if !s.Hidden && s.Name() != "help" {
			subs = append(subs, fmt.Sprintf(".TP\n.BR %s (1)\n%s\n", troff(strings.ReplaceAll(s.CommandPath(), " ", "-")), troff(s.Short)))
		}
	}
	if subs != nil {
		fmt.Fprintf(&b, ".SH COMMANDS\n%s", strings.Join(subs, ""))
	}
	b.WriteString(".SH EXIT STATUS\n0 ok, 1 error, 2 infeasible or at risk, 3 degraded, 64 usage\n")
	b.WriteString(".SH ENVIRONMENT\n.TP\n.B UNISCHED_SOCKET\nthe daemon's control socket\n.TP\n.B UNISCHED_CONFIG\nthe site's configuration file\n.TP\n.B NO_COLOR\nno colours, also on a terminal\n")
	if c.HasParent() {
		fmt.Fprintf(&b, ".SH SEE ALSO\n.BR %s (1)\n", troff(strings.ReplaceAll(c.Parent().CommandPath(), " ", "-")))
	}
	return b.String()
}
