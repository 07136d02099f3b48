package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"unisched/bridge/nodes"
	"unisched/bridge/siteconfig"
	"unisched/hooks/progress"
)

// certificate writes a fresh certificate for 127.0.0.1 and its key, and returns the pool that trusts it.
func certificate(t *testing.T, dir string) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	certFile, keyFile = write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", keyDER)
	pool = x509.NewCertPool()
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(cert)
	return certFile, keyFile, pool
}

// A signed report arrives over TLS, and over plain HTTP it does not.
func TestNodeListenerOverTLS(t *testing.T) {
	dir := t.TempDir()
	secret := bytes.Repeat([]byte("k"), progress.MinKeyBytes)
	keyPath := filepath.Join(dir, "node.key")
	if err := os.WriteFile(keyPath, append(bytes.Clone(secret), '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	cert, certKey, pool := certificate(t, dir)
	d := siteconfig.Daemon{Listen: "127.0.0.1:0", NodeKeyFile: keyPath, TLSCertFile: cert, TLSKeyFile: certKey}
	l, err := newListener(d)
	if err != nil {
		t.Fatal(err)
	}
	ln, cfg, err := openListener(d)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Serve(ctx, ln, cfg) }()

	body, err := progress.Report{SchemaVersion: 1, Node: "n1", Instance: "i", Seq: 1, Jobs: []progress.JobReport{{Job: 12, UID: 1, Node: "n1"}}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	post := func(scheme string) int {
		req, err := http.NewRequest(http.MethodPost, scheme+"://"+ln.Addr().String()+nodes.Path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", progress.Sign(secret, body, time.Now()))
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool}}}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	if code := post("https"); code != http.StatusOK {
		t.Errorf("over TLS: HTTP %d", code)
	}
	if code := post("http"); code != http.StatusBadRequest {
		t.Errorf("without TLS: HTTP %d", code)
	}
	if got := l.Drain(); len(got) != 1 || got[0].Job != 12 {
		t.Errorf("queue: %v", got)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
