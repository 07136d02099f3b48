package slurm

import "testing"

func TestPower(t *testing.T) {
	for _, c := range []struct {
		name, state string
		power       Power
		wakes       bool
	}{
		{"up", `["IDLE"]`, Up, false},
		{"asleep", `["IDLE","CLOUD","POWERED_DOWN"]`, Asleep, true},
		{"asleep, as the commands say it", `"idle~"`, Asleep, true},
		{"waking", `["MIXED","CLOUD","POWERING_UP"]`, Waking, true},
		{"waking, as the commands say it", `"alloc#"`, Waking, true},
		{"told to wake", `["IDLE","POWERED_DOWN","POWER_UP"]`, Waking, true},
		{"falling asleep", `["IDLE","CLOUD","POWERING_DOWN"]`, Falling, true},
		{"falling asleep, as the commands say it", `"idle%"`, Falling, true},
		{"about to", `"idle!"`, Falling, true},
		{"asleep and drained", `["IDLE","POWERED_DOWN","DRAIN"]`, Asleep, false},
		{"down while waking", `["DOWN","POWERING_UP"]`, Waking, false},
		{"asleep in an unknown way", `["IDLE","POWERED_DOWN","SPARKLING"]`, Asleep, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, ok := readNode(with(t, idleNode, map[string]string{"state": c.state}))
			if !ok || n.Usable != (c.power == Up) {
				t.Fatalf("%v %+v", ok, n)
			}
			if p, wakes := n.Power(); p != c.power || wakes != c.wakes {
				t.Errorf("%q, wakes %v", p, wakes)
			}
		})
	}
}
