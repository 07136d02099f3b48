package bridge

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A weight is written "name=factor": what the rewards of an account's or a QOS's jobs are multiplied with.

// parseWeight reads one weight. The factor lies within 0.001..1000, as the planner bounds it.
func parseWeight(s string) (name string, factor float64, err error) {
	name, text, ok := strings.Cut(s, "=")
	factor, err = strconv.ParseFloat(text, 64)
	if !ok || name == "" || err != nil || math.IsNaN(factor) || factor < 0.001 || factor > 1000 {
		return "", 0, fmt.Errorf("%q is not name=factor with a factor within 0.001..1000", s)
	}
	return name, factor, nil
}

// weightOf is the weight of a job: its account's times its QOS's, 1 for what is not named.
func (c Config) weightOf(account, qos string) float64 {
	return named(c.AccountWeights, account) * named(c.QOSWeights, qos) * cmp.Or(c.Accounts[account].Weight, 1) * cmp.Or(c.QOS[qos].Price, 1)
}

func named(weights []string, name string) float64 {
	for _, w := range weights {
		if n, f, err := parseWeight(w); err == nil && n == name {
			return f
		}
	}
	return 1
}
