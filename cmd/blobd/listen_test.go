package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestListenersAside(t *testing.T) {
	metrics, debug := freePort(t), freePort(t)
	cfg := testConfig(t, filepath.Join(t.TempDir(), "data"), map[string]string{"metricsListen": metrics, "debugListen": debug})
	r := start(t, cfg)
	for _, c := range []struct {
		url    string
		status int
	}{
		{r.url + "/metrics", http.StatusNotFound},
		{r.url + "/debug/pprof/", http.StatusNotFound},
		{"http://" + metrics + "/metrics", http.StatusOK},
		{"http://" + metrics + "/debug/pprof/", http.StatusNotFound},
		{"http://" + debug + "/debug/pprof/", http.StatusOK},
		{"http://" + debug + "/metrics", http.StatusNotFound},
	} {
		if status, _ := ask(t, http.DefaultClient, "GET", c.url, "", nil); status != c.status {
			t.Errorf("%s: %d, want %d", c.url, status, c.status)
		}
	}
	r.end(t)
	if cfg := testConfig(t, "x", nil); cfg.DebugListen != "" {
		t.Errorf("profiles are on by default: %q", cfg.DebugListen)
	}
}

// freePort names a port that was free a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func TestTLS(t *testing.T) {
	cert, key, pool := selfSigned(t)
	cfg := testConfig(t, filepath.Join(t.TempDir(), "data"), map[string]string{"tls.cert": cert, "tls.key": key})
	r := start(t, cfg)
	if !strings.HasPrefix(r.url, "https://127.0.0.1:") {
		t.Errorf("url %s", r.url)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer transport.CloseIdleConnections()
	status, _ := ask(t, &http.Client{Transport: transport}, "GET", r.url+"/livez", "", nil)
	if status != http.StatusOK {
		t.Errorf("livez: %d", status)
	}
	r.end(t)

	must(t, os.WriteFile(key, []byte("no key"), 0o600))
	if err := serve(t.Context(), cfg, quiet(), func(string) { t.Error("it serves") }); err == nil {
		t.Error("a broken key was taken")
	}
}

// selfSigned writes a certificate for 127.0.0.1 and its key.
func selfSigned(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	pool = x509.NewCertPool()
	pool.AddCert(cert)
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	must(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
	return certFile, keyFile, pool
}
