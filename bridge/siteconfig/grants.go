package siteconfig

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"unisched/bridge"
)

// Tables whose names are the site's own: [accounts.NAME] and [qos.NAME]. A name may hold dots; it stands between the first and the last of the key.

// granted is one key of such a table.
type granted struct {
	section, leaf string
	set           func(s *Site, name string, v any) error
	// names lists the tables that exist, get shows the key of one as TOML, "" when it is not set.
	names func(*Site) []string
	get   func(s *Site, name string) string
}

// grants lists every such key in the order in which `config show` has them.
var grants = []granted{
	account("max_gpus", func(g *bridge.AccountGrant, v any) error { return setWhole(&g.MaxGPUs, v) },
		func(g bridge.AccountGrant) string { return orNone(g.MaxGPUs != 0, strconv.Itoa(g.MaxGPUs)) }),
	account("weight", func(g *bridge.AccountGrant, v any) error { return setReal(&g.Weight, v) },
		func(g bridge.AccountGrant) string { return orNone(g.Weight != 0, number(g.Weight)) }),
	account("share", func(g *bridge.AccountGrant, v any) error { return setReal(&g.Share, v) },
		func(g bridge.AccountGrant) string { return orNone(g.Share != 0, number(g.Share)) }),
	account("strict_gpu_hours", func(g *bridge.AccountGrant, v any) error { return setReal(&g.StrictGPUHours, v) },
		func(g bridge.AccountGrant) string { return orNone(g.StrictGPUHours != 0, number(g.StrictGPUHours)) }),
	{"qos", "price", func(s *Site, name string, v any) error {
		var g bridge.QOSGrant
		if err := setReal(&g.Price, v); err != nil {
			return err
		}
		if s.Bridge.QOS == nil {
			s.Bridge.QOS = map[string]bridge.QOSGrant{}
		}
		s.Bridge.QOS[name] = g
		return nil
	}, func(s *Site) []string { return slices.Sorted(maps.Keys(s.Bridge.QOS)) },
		func(s *Site, name string) string { return number(s.Bridge.QOS[name].Price) }},
}

func account(leaf string, set func(*bridge.AccountGrant, any) error, get func(bridge.AccountGrant) string) granted {
	return granted{"accounts", leaf, func(s *Site, name string, v any) error {
		g := s.Bridge.Accounts[name]
		if err := set(&g, v); err != nil {
			return err
		}
		if s.Bridge.Accounts == nil {
			s.Bridge.Accounts = map[string]bridge.AccountGrant{}
		}
		s.Bridge.Accounts[name] = g
		return nil
	}, func(s *Site) []string { return slices.Sorted(maps.Keys(s.Bridge.Accounts)) },
		func(s *Site, name string) string { return get(s.Bridge.Accounts[name]) }}
}

func orNone(set bool, text string) string {
	if !set {
		return ""
	}
	return text
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

func setWhole(at *int, v any) error {
	return whole("", func(*Site) *int { return at }).set(nil, v)
}

func setReal(at *float64, v any) error {
	return real("", func(*Site) *float64 { return at }).set(nil, v)
}

// grantOf finds the table key that a dotted key is, and the name in it.
func grantOf(key string) (g granted, name string, ok bool) {
	section, rest, _ := strings.Cut(key, ".")
	i := strings.LastIndexByte(rest, '.')
	if i <= 0 {
		return granted{}, "", false
	}
	for _, g := range grants {
		if g.section == section && g.leaf == rest[i+1:] {
			return g, rest[:i], true
		}
	}
	return granted{}, "", false
}

// applyGrants sets the keys of such tables and takes them out of values; from notes where each was set.
func applyGrants(site *Site, f File, values map[string]any, lines map[string]int, from map[string]string) []Fault {
	var faults []Fault
	for _, key := range slices.Sorted(maps.Keys(values)) {
		g, name, ok := grantOf(key)
		if !ok {
			continue
		}
		if err := g.set(site, name, values[key]); err != nil {
			faults = append(faults, Fault{f.Name, lines[key], key, err})
		}
		from[key] = fmt.Sprintf("%s:%d", f.Name, lines[key])
		delete(values, key)
	}
	return faults
}

// grantSettings shows what the site grants, names rising.
func grantSettings(site *Site, from map[string]string) []Setting {
	var out []Setting
	for _, g := range grants {
		for _, name := range g.names(site) {
			if v := g.get(site, name); v != "" {
				key := g.section + "." + name + "." + g.leaf
				out = append(out, Setting{key, v, from[key]})
			}
		}
	}
	return out
}

// nearestGrant is a key of such a table that was probably meant, "" when none is close.
func nearestGrant(key string) string {
	section, rest, _ := strings.Cut(key, ".")
	i := strings.LastIndexByte(rest, '.')
	for _, g := range grants {
		if g.section == section && i > 0 && distance(rest[i+1:], g.leaf) < 3 {
			return g.section + "." + rest[:i] + "." + g.leaf
		}
	}
	return ""
}
