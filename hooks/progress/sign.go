package progress

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Bounds of a signature. Nodes' clocks may differ from the daemon's by clockSkew.
const (
	MinKeyBytes = 32
	maxKeyBytes = 4096
	issuer      = "unisched-node"
	lifetime    = 60 * time.Second
	clockSkew   = 30 * time.Second
	maxToken    = 2048
)

// Errors that Verify returns, wrapped, and ParseKey.
var (
	ErrKey       = errors.New("node key")              // too short or too long
	ErrSignature = errors.New("report signature")      // missing, malformed, of another key or of another body
	ErrExpired   = errors.New("report signature time") // outside its minute: replayed, or the clocks differ
)

type claims struct {
	Issuer   string `json:"iss"`
	IssuedAt int64  `json:"iat"`
	Expires  int64  `json:"exp"`
	SHA256   string `json:"sha256"` // hex of the body
}

// ParseKey checks the content of a key file, 32 to 4,096 bytes after one trailing newline is removed. Both ends use
// it, so that a key written by an editor equals one written by dd.
func ParseKey(content []byte) ([]byte, error) {
	key := bytes.TrimSuffix(bytes.TrimSuffix(content, []byte("\n")), []byte("\r"))
	if len(key) < MinKeyBytes || len(key) > maxKeyBytes {
		return nil, fmt.Errorf("%w: %d bytes, want %d to %d", ErrKey, len(key), MinKeyBytes, maxKeyBytes)
	}
	return key, nil
}

// Sign returns the value of the Authorization header for body: "Bearer " and a JWT (RFC 7519) signed with HMAC
// SHA-256 that is valid for 60 s from now and only for these bytes.
func Sign(key, body []byte, now time.Time) string {
	c, err := json.Marshal(claims{issuer, now.Unix(), now.Add(lifetime).Unix(), bodySum(body)})
	if err != nil {
		panic(err) // strings and integers always encode
	}
	unsigned := b64([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + b64(c)
	return "Bearer " + unsigned + "." + b64(mac(key, unsigned))
}

// Verify checks an Authorization header made by Sign against the body received. It compares in constant time and
// accepts no other algorithm than HS256. Errors wrap [ErrSignature], [ErrExpired] or [ErrKey].
func Verify(key, body []byte, header string, now time.Time) error {
	if len(key) < MinKeyBytes {
		return fmt.Errorf("%w: %d bytes, want at least %d", ErrKey, len(key), MinKeyBytes)
	}
	token, ok := strings.CutPrefix(header, "Bearer ")
	parts := strings.Split(token, ".")
	if !ok || len(token) > maxToken || len(parts) != 3 {
		return fmt.Errorf("%w: want Bearer and a JWT", ErrSignature)
	}
	got, err := base64.RawURLEncoding.Strict().DecodeString(parts[2])
	if err != nil || !hmac.Equal(got, mac(key, parts[0]+"."+parts[1])) {
		return fmt.Errorf("%w: does not match the key", ErrSignature)
	}
	var head struct {
		Alg string `json:"alg"`
	}
	var c claims
	if err := decodePart(parts[0], &head); err != nil || head.Alg != "HS256" {
		return fmt.Errorf("%w: algorithm is not HS256", ErrSignature)
	}
	if err := decodePart(parts[1], &c); err != nil || c.Issuer != issuer {
		return fmt.Errorf("%w: issuer is not %s", ErrSignature, issuer)
	}
	if subtle.ConstantTimeCompare([]byte(c.SHA256), []byte(bodySum(body))) != 1 {
		return fmt.Errorf("%w: body differs", ErrSignature)
	}
	skew := int64(clockSkew / time.Second)
	if now.Unix() > c.Expires+skew || now.Unix() < c.IssuedAt-skew || c.Expires-c.IssuedAt > int64(lifetime/time.Second) {
		return fmt.Errorf("%w: issued %s, now %s", ErrExpired, time.Unix(c.IssuedAt, 0).UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return nil
}

func mac(key []byte, text string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}

func bodySum(body []byte) string {
	s := sha256.Sum256(body)
	return hex.EncodeToString(s[:])
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func decodePart(part string, into any) error {
	b, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, into)
}
