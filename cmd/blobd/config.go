package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"

	"github.com/blobd/blobd/retention"
	"github.com/blobd/blobd/retention/clock"
)

// config is the effective configuration, checked once.
type config struct {
	Listen                                  string
	DataDir                                 string
	LogLevel                                slog.Level
	DebugListen                             string
	MetricsListen                           string
	TLSCert                                 string
	TLSKey                                  string
	LedgerURL                               string // "": SQLite in the data folder
	Backend                                 string
	Bucket                                  bucketConfig // of the drivers s3 and minio
	Export                                  bucketConfig // of an exported log: no bucket and no prefix in it
	CacheBytes                              int64
	Keys                                    string
	Vault                                   vaultConfig // of the driver transit
	KeysTTL                                 time.Duration
	Sweeps                                  retention.SweepOptions // of sweep.*
	Epochs                                  retention.EpochOptions // of keys.horizon, keys.rotateCron and keys.rewrapRate
	PutMargin                               time.Duration
	Calendars                               clock.Calendars // of the file holidays
	MaxJump                                 time.Duration   // of the ledger's clock; 0: no bound
	WebhooksAllowPrivate                    bool            // of webhooks.allowPrivate
	TokenCache                              time.Duration
	JournalDir                              string
	LeaveJournal                            bool // there is no second place any more
	MaxBlob, MaxBatch, MaxBody, MaxInFlight int64
	Server                                  string
	Token                                   string

	// chosen says which layer gave a key: flag, environment or file. A key that
	// has its default is not in it.
	chosen map[string]string
	values *koanf.Koanf
}

// layers are the sources of the configuration beside the defaults.
type layers struct {
	Flags   map[string]string // by key; empty values are not set
	Environ []string          // as os.Environ
	File    string            // YAML; "": none
}

// loadConfig merges flags over environment over file over defaults.
func loadConfig(l layers) (config, error) {
	known := make(map[string]setting)
	variables := make(map[string]setting)
	defaults := make(map[string]any)
	for _, s := range settings() {
		known[s.Key], variables[s.Env] = s, s
		defaults[s.Key] = s.Default
	}
	file, err := fileLayer(l.File, known)
	if err != nil {
		return config{}, err
	}
	env, err := envLayer(l.Environ, variables)
	if err != nil {
		return config{}, err
	}
	flags := make(map[string]any)
	for key, value := range l.Flags {
		if value != "" {
			flags[key] = value
		}
	}
	c := config{chosen: make(map[string]string), values: koanf.New(".")}
	for _, layer := range []struct {
		name   string
		values map[string]any
	}{{"", defaults}, {"file", file}, {"environment", env}, {"flag", flags}} {
		if err := c.values.Load(confmap.Provider(layer.values, "."), nil); err != nil {
			return config{}, fmt.Errorf("configuration: %w", err)
		}
		for key := range layer.values {
			if layer.name != "" {
				c.chosen[key] = layer.name
			}
		}
	}
	return c, c.decode()
}

// fileLayer reads the YAML file strictly: an unknown, an empty or a repeated
// key, or a list, is an error.
func fileLayer(path string, known map[string]setting) (map[string]any, error) {
	if path == "" {
		return nil, nil
	}
	body, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	tree, err := yaml.Parser().Unmarshal(body)
	if err != nil { // its text may repeat a value
		return nil, fmt.Errorf("configuration: %s is not a YAML map in which each key stands once", path)
	}
	k := koanf.New(".")
	if err := k.Load(confmap.Provider(tree, ""), nil); err != nil {
		return nil, fmt.Errorf("configuration: %s: %w", path, err)
	}
	flat := make(map[string]any)
	for key, value := range k.All() {
		if _, ok := known[key]; !ok {
			return nil, fmt.Errorf("configuration: %s: unknown key %q", path, key)
		}
		switch value.(type) {
		case string, bool, int, int64, uint64, float64:
			flat[key] = fmt.Sprint(value)
		default:
			return nil, fmt.Errorf("configuration: %s: key %q wants one value", path, key)
		}
	}
	return flat, nil
}

// envLayer takes our variables. An empty one is as if unset.
func envLayer(environ []string, variables map[string]setting) (map[string]any, error) {
	flat := make(map[string]any)
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, envPrefix) || foreign(name) {
			continue
		}
		s, ok := variables[name]
		if !ok {
			return nil, fmt.Errorf("configuration: unknown variable %s", name)
		}
		if value != "" {
			flat[s.Key] = value
		}
	}
	return flat, nil
}

// decode turns the merged values into the typed configuration. No error repeats
// a value: one of them may be a secret in the wrong place.
func (c *config) decode() error {
	var errs []error
	text := c.values.String
	whole := func(key string, least int64) int64 {
		n, err := strconv.ParseInt(text(key), 10, 64)
		if err != nil || n < least {
			errs = append(errs, c.wrong(key, fmt.Sprintf("wants a whole number of bytes, %d or more", least)))
		}
		return n
	}
	span := func(key string, least time.Duration) time.Duration {
		d, err := time.ParseDuration(text(key))
		if err != nil || d < least {
			errs = append(errs, c.wrong(key, fmt.Sprintf("wants a duration like 30s, at least %v", least)))
		}
		return d
	}
	oneOf := func(key string, words ...string) string {
		for _, w := range words {
			if text(key) == w {
				return w
			}
		}
		errs = append(errs, c.wrong(key, "wants "+strings.Join(words, " or ")+" in this version"))
		return ""
	}
	for _, s := range settings() {
		if s.Later && c.chosen[s.Key] != "" {
			errs = append(errs, c.wrong(s.Key, "is not in this version"))
		}
	}
	if err := c.LogLevel.UnmarshalText([]byte(text("logLevel"))); err != nil {
		errs = append(errs, c.wrong("logLevel", "wants debug, info, warn or error"))
	}
	c.Listen, c.DataDir = text("listen"), text("dataDir")
	c.DebugListen, c.MetricsListen = text("debugListen"), text("metricsListen")
	c.TLSCert, c.TLSKey = text("tls.cert"), text("tls.key")
	if (c.TLSCert == "") != (c.TLSKey == "") {
		errs = append(errs, c.wrong("tls.cert", "and tls.key go together"))
	}
	c.LedgerURL = text("ledger.dsn")
	if c.LedgerURL != "" && !isPostgres(c.LedgerURL) {
		errs = append(errs, c.wrong("ledger.dsn", "wants a URL like postgres://user@host/database, or nothing"))
	}
	c.Backend = oneOf("backend.driver", "fs", "s3", "minio", "mem")
	errs = append(errs, c.decodeBucket()...)
	errs = append(errs, c.decodeExport()...)
	c.Keys = oneOf("keys.driver", "local", "transit")
	errs = append(errs, c.decodeVault()...)
	errs = append(errs, c.decodeEpochs()...)
	errs = append(errs, c.decodeSweeps()...)
	errs = append(errs, c.decodeClocks()...)
	errs = append(errs, c.decodeClockWatch()...)
	errs = append(errs, c.decodeWebhooks()...)
	c.CacheBytes = whole("backend.cache", 0)
	c.MaxBlob, c.MaxBatch = whole("limits.blob", 1), whole("limits.batch", 1)
	c.MaxBody, c.MaxInFlight = whole("limits.body", 1), whole("limits.inFlight", 1)
	c.KeysTTL = span("keys.cacheTTL", time.Second)
	c.PutMargin = span("putMargin", 100*time.Millisecond)
	c.TokenCache = span("tokenCache", time.Millisecond)
	c.JournalDir = text("journal.dir")
	if c.JournalDir == "none" {
		c.JournalDir, c.LeaveJournal = "", true
	}
	if c.JournalDir != "" && inside(c.DataDir, c.JournalDir) {
		errs = append(errs, c.wrong("journal.dir", "must lie outside the data folder"))
	}
	c.Server, c.Token = strings.TrimRight(text("server"), "/"), text("token")
	if u, err := url.Parse(c.Server); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		errs = append(errs, c.wrong("server", "wants a URL like http://127.0.0.1:8080"))
	}
	return errors.Join(errs...)
}

// wrong is an error that names a key as the layer that set it knows it.
func (c *config) wrong(key, problem string) error {
	name := key
	if c.chosen[key] == "environment" {
		for _, s := range settings() {
			if s.Key == key {
				name = s.Env
			}
		}
	}
	return fmt.Errorf("configuration: %s %s", name, problem)
}

// inside reports whether path lies in dir or is dir.
func inside(dir, path string) bool {
	a, errA := filepath.Abs(dir)
	b, errB := filepath.Abs(path)
	if errA != nil || errB != nil {
		return false
	}
	rel, err := filepath.Rel(a, b)
	return err == nil && (rel == "." || filepath.IsLocal(rel))
}

// readToken reads a token file: one line, or nothing is there.
func readToken(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(b))
	if token == "" {
		return "", fmt.Errorf("%s is empty: %w", path, fs.ErrNotExist)
	}
	return token, nil
}
