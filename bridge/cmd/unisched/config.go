package main

import (
	"errors"
	"fmt"
	"os/user"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"unisched/bridge"
	"unisched/bridge/siteconfig"
)

// version is set by the build (-ldflags -X main.version=...).
var version = "dev"

type configDoc struct {
	Schema   int                  `json:"schema_version"`
	Settings []siteconfig.Setting `json:"settings,omitempty"`
	Valid    bool                 `json:"valid"`
	Faults   []string             `json:"faults,omitempty"`
}

func (a *app) configCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "config", Short: "The site's configuration", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return errors.New("config: want show or validate") },
	}
	c.AddCommand(
		&cobra.Command{Use: "show", Short: "Every key, its value and where it comes from", Args: cobra.NoArgs,
			RunE: do(func(*cobra.Command, []string) error { return a.showConfig() })},
		&cobra.Command{Use: "validate [FILE]", Short: "Every fault, with its line", Args: cobra.MaximumNArgs(1),
			RunE: do(func(_ *cobra.Command, args []string) error {
				if len(args) == 1 {
					a.config = args[0]
				}
				return a.validateConfig()
			})})
	return c
}

func (a *app) showConfig() error {
	_, settings, err := a.site()
	if settings == nil {
		return err
	}
	if a.output == "json" {
		if jerr := a.json(configDoc{bridge.ViewSchema, settings, err == nil, faults(err)}); jerr != nil {
			return jerr
		}
	} else {
		section := ""
		for _, s := range settings {
			table, key, _ := strings.Cut(s.Key, ".")
			if table != section {
				if section != "" {
					fmt.Fprintln(a.out)
				}
				fmt.Fprintf(a.out, "[%s]\n", table)
				section = table
			}
			fmt.Fprintf(a.out, "%s = %s", key, s.Value)
			if s.From != "default" {
				fmt.Fprintf(a.out, "  # %s", clean(s.From, false))
			}
			fmt.Fprintln(a.out)
		}
	}
	return err
}

func (a *app) validateConfig() error {
	site, _, err := a.site()
	if err == nil {
		_, err = site.Daemon.OperatorUIDs(lookupUID)
	}
	if a.output == "json" {
		if jerr := a.json(configDoc{Schema: bridge.ViewSchema, Valid: err == nil, Faults: faults(err)}); jerr != nil {
			return jerr
		}
		if err != nil {
			return coded{exitError, nil}
		}
		return nil
	}
	if err == nil {
		fmt.Fprintln(a.out, "valid")
	}
	return err
}

func faults(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

// lookupUID asks the system for a user's uid.
func lookupUID(name string) (uint32, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(u.Uid, 10, 32)
	return uint32(n), err
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "The version of this program", Args: cobra.NoArgs,
		RunE: do(func(*cobra.Command, []string) error {
			v, goVersion := version, ""
			if b, ok := debug.ReadBuildInfo(); ok {
				goVersion = b.GoVersion
			}
			if a.output == "json" {
				return a.json(struct {
					Schema  int    `json:"schema_version"`
					Version string `json:"version"`
					Go      string `json:"go"`
				}{bridge.ViewSchema, v, goVersion})
			}
			_, err := fmt.Fprintf(a.out, "unisched %s (%s)\n", v, goVersion)
			return err
		}),
	}
}
