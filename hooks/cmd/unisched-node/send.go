package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"unisched/hooks/progress"
)

// errRefused: the daemon understood the report and will never take it (a bound or a version differs).
var errRefused = errors.New("report refused")

const (
	sendTimeout   = 10 * time.Second
	maxReplyBytes = 64 << 10
	maxKeyFile    = 8 << 10
)

// sender posts signed reports. The key file is read for each report, so that a new key needs no restart.
type sender struct {
	url, keyFile string
	client       *http.Client
	now          func() time.Time
}

func newSender(address, keyFile, caFile string) (*sender, error) {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("url %q: want the daemon's http://host:port or https://host:port, in UNISCHED_URL of /etc/unisched/node.env", address)
	}
	tr := &http.Transport{Proxy: nil, MaxIdleConns: 1, IdleConnTimeout: 90 * time.Second} // nodes talk to the daemon directly
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca %s: no certificate in it", caFile)
		}
		tr.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	s := &sender{url: strings.TrimRight(address, "/") + "/v1/report", keyFile: keyFile, now: time.Now}
	s.client = &http.Client{Transport: tr, Timeout: sendTimeout, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // a signed report goes where the admin said and nowhere else
	}}
	return s, nil
}

func readKey(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	if info.Mode().Perm()&0o007 != 0 { // whoever reads it can speak for every job
		return nil, fmt.Errorf("key %s: open to all users, want mode 0600", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	return progress.ParseKey(b)
}

// post sends one report. An error means that the report counts as not delivered, except one that wraps errRefused.
func (s *sender) post(ctx context.Context, body []byte) (resync bool, err error) {
	key, err := readKey(s.keyFile)
	if err != nil {
		return false, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", progress.Sign(key, body, s.now()))
	resp, err := s.client.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxReplyBytes))
	switch {
	case resp.StatusCode == http.StatusConflict:
		return true, errors.New("the daemon asks for a resync")
	case resp.StatusCode == http.StatusBadRequest, resp.StatusCode == http.StatusRequestEntityTooLarge, resp.StatusCode == http.StatusUnprocessableEntity:
		return false, fmt.Errorf("%w: HTTP %d: %.200q", errRefused, resp.StatusCode, answer)
	case resp.StatusCode/100 != 2:
		return false, fmt.Errorf("HTTP %d: %.200q", resp.StatusCode, answer)
	case err != nil:
		return false, err
	}
	var reply progress.Reply
	if len(answer) > 0 && json.Unmarshal(answer, &reply) != nil {
		return false, nil // an answer in another form: delivered, nothing asked
	}
	return reply.Resync, nil
}
