package slurm

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
)

// TokenExpiry says when the JWT in a token file ends, by its own claim; the
// zero time when it makes none. The signature is not checked: that is the
// server's matter, and the answer is only used to warn. It never shows the
// token in an error.
func TokenExpiry(file string) (time.Time, error) {
	token, err := readToken(file)
	if err != nil {
		return time.Time{}, err
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}, fmt.Errorf("token file %s does not hold a JWT", file)
	}
	claims, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return time.Time{}, fmt.Errorf("token file %s: its claims are not base64", file)
	}
	var c struct {
		Exp *float64 `json:"exp"`
	}
	if err := json.Unmarshal(claims, &c); err != nil || c.Exp != nil && (*c.Exp < 0 || *c.Exp > math.MaxInt32*1000.0) {
		return time.Time{}, fmt.Errorf("token file %s: its claims are not understood", file)
	}
	if c.Exp == nil {
		return time.Time{}, nil
	}
	return time.Unix(int64(*c.Exp), 0), nil
}
