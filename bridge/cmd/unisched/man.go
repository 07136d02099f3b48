package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manCommand is what the packages are built with: the whole command line as one page of the manual.
func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{Use: "man", Short: "This command line as a page of the manual, in roff", Args: cobra.NoArgs, Hidden: true,
		RunE: do(func(cmd *cobra.Command, _ []string) error { return manPage(a.out, cmd.Root(), version) })}
}

// manPage writes unisched(1). Flags that all commands have are described once.
func manPage(w io.Writer, root *cobra.Command, version string) error {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH UNISCHED 1 \"\" \"%s\" \"UniSched for Slurm\"\n.SH NAME\nunisched \\- %s\n", roff(strings.ReplaceAll(version, `"`, "")), roff(lower(root.Short)))
	b.WriteString(".SH SYNOPSIS\n.B unisched\n.I COMMAND\n.RI [ FLAGS ]\n.SH DESCRIPTION\n")
	paragraphs(&b, root.Long)
	b.WriteString(".SH COMMANDS\n")
	commands(&b, root)
	b.WriteString(".SH FLAGS OF EVERY COMMAND\n")
	flags(&b, root.PersistentFlags())
	b.WriteString(".SH ENVIRONMENT\n.TP\n.B UNISCHED_CONFIG\nconfiguration file\n.TP\n.B UNISCHED_SOCKET\ncontrol socket of the daemon\n" +
		".SH FILES\n/etc/unisched/unisched.toml, /etc/unisched/conf.d/*.toml\n.SH SEE ALSO\n.BR unischedd (8),\n.BR unisched.toml (5),\n.BR unisched-node (8)\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func commands(b *strings.Builder, parent *cobra.Command) {
	for _, c := range parent.Commands() {
		if c.Hidden || c.Name() == "help" {
			continue
		}
		if c.HasSubCommands() {
			commands(b, c)
			continue
		}
		fmt.Fprintf(b, ".SS %s\n", roff(c.UseLine()))
		text := c.Long
		if text == "" {
			text = c.Short
		}
		paragraphs(b, text)
		flags(b, c.NonInheritedFlags())
		if c.Example != "" {
			fmt.Fprintf(b, ".PP\nFor example:\n.nf\n")
			for line := range strings.Lines(c.Example) {
				b.WriteString(roff(strings.TrimSpace(line)) + "\n")
			}
			b.WriteString(".fi\n")
		}
	}
}

func flags(b *strings.Builder, set *pflag.FlagSet) {
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		fmt.Fprintf(b, ".TP\n.B \\-\\-%s", roff(f.Name))
		if value != "" {
			fmt.Fprintf(b, " %s", roff(value))
		}
		fmt.Fprintf(b, "\n%s\n", roff(usage))
	})
}

// paragraphs writes text whose paragraphs are parted by empty lines, each line for itself.
func paragraphs(b *strings.Builder, text string) {
	for i, p := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		for line := range strings.Lines(p) {
			b.WriteString(roff(strings.TrimSuffix(line, "\n")) + "\n")
		}
	}
}

// roff makes text plain for the formatter: no line is a request, no dash a hyphen.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ").Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}

func lower(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}
