package bridge

import "testing"

func TestWeights(t *testing.T) {
	c := Defaults()
	c.AccountWeights, c.QOSWeights = []string{"phys=2", "guest=0.5"}, []string{"high=3"}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		account, qos string
		want         float64
	}{{"phys", "normal", 2}, {"phys", "high", 6}, {"guest", "", 0.5}, {"other", "high", 3}, {"", "", 1}} {
		if got := c.weightOf(x.account, x.qos); got != x.want {
			t.Errorf("%s %s: %g, want %g", x.account, x.qos, got, x.want)
		}
	}
	for _, bad := range []string{"", "phys", "phys=", "=2", "phys=0", "phys=-1", "phys=NaN", "phys=1e9", "phys=2=3"} {
		c.AccountWeights = []string{bad}
		if c.Validate() == nil {
			t.Errorf("%q accepted", bad)
		}
	}
}
