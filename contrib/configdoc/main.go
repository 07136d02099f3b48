// Command configdoc writes docs/configuration.md: every key of the configuration with its type and default, from the table of package
// siteconfig, and what it means, from the comments of etc/unisched.toml. A test fails when the page is older than either.
//
// It refuses to say anything of its own: a key that only one of the two has is an error. Whoever changes the configuration runs it.
//
//	go run ./contrib/configdoc >docs/configuration.md
package main

import (
	"fmt"
	"os"

	"unisched/bridge/siteconfig"
)

func main() {
	text, err := os.ReadFile("etc/unisched.toml")
	if err == nil {
		text, err = page(text, siteconfig.Keys())
	}
	if err == nil {
		_, err = os.Stdout.Write(text)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "configdoc: %v (run it in the root of the repository)\n", err)
		os.Exit(1)
	}
}
