package main

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/blobd/blobd/bench/load"
)

// config is what the command line says.
type config struct {
	blobd, root, minio, versitygw, dir, s3Dir, profile string
	servers, ops                                       []string
	clients, erase                                     []int
	eraseRuns, rounds                                  int
	duration, warmup, eraseWait, roundTrip             time.Duration
	driver                                             load.Driver
	driverName                                         string
	json                                               bool
}

// The operations, by their names on the command line and in the table.
const (
	opPut        = "put"
	opPutNew     = "put-new"         // every put is the first of a new execution
	opGet        = "resolve"         // sealed bytes come from blobd's memory
	opGetNoCache = "resolve-nocache" // sealed bytes come from the backend
	opBatch      = "batch"
	opErase      = "erase"
)

// The servers.
const (
	serverFloor = "floor"
	serverBlobd = "blobd"
	serverMinIO = "minio"
	serverVGW   = "versitygw"
	overMinIO   = "blobd-minio"     // blobd with its objects in that MinIO
	overVGW     = "blobd-versitygw" // the same in that versitygw, by the s3 driver
)

func parse(args []string) (cfg config, err error) {
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&cfg.blobd, "blobd", "", "blobd `binary`; built from --root if not given")
	f.StringVar(&cfg.root, "root", "..", "`folder` of the blobd module")
	f.StringVar(&cfg.minio, "minio", "", "MinIO `binary`; else the one that make tools installs, or PATH's; without one MinIO is left out")
	f.StringVar(&cfg.versitygw, "versitygw", "", "versitygw `binary`, found like MinIO's")
	f.StringVar(&cfg.dir, "dir", "", "`folder` on a disk for all data (default: the system's temporary folder)")
	f.StringVar(&cfg.s3Dir, "s3-dir", "", "`folder` for the S3 servers' data, on a disk of its own or in memory, as a distant server's disks are its own (default: beside all other data)")
	f.StringVar(&cfg.profile, "profile", "", "`folder` that receives CPU, allocation, block and mutex profiles of blobd, from rounds of their own")
	f.DurationVar(&cfg.duration, "duration", 6*time.Second, "measured time of one cell")
	f.DurationVar(&cfg.warmup, "warmup", time.Second, "time before it, not measured")
	f.IntVar(&cfg.rounds, "rounds", 3, "rounds over all cells; the table shows medians")
	f.IntVar(&cfg.eraseRuns, "erase-runs", 3, "erasures per size of execution")
	f.DurationVar(&cfg.eraseWait, "erase-wait", 0, "how long to wait for an erasure's final state; the put margin alone is 30 s")
	f.DurationVar(&cfg.roundTrip, "round-trip", 0, "distance of the S3 servers from everybody, in whole milliseconds")
	f.BoolVar(&cfg.json, "json", false, "print JSON")
	large := f.Bool("erase-large", false, "erase an execution of 100,000 blobs too")
	f.StringVar(&cfg.driverName, "driver", "raw", "the load's HTTP client: raw (costs next to nothing) or net/http (what a Go program usually has)")
	servers := f.String("servers", "floor,blobd,minio", "servers to measure: floor, blobd, minio, versitygw, and blobd over them: blobd-minio, blobd-versitygw")
	ops := f.String("ops", strings.Join([]string{opPut, opPutNew, opGet, opGetNoCache, opBatch, opErase}, ","), "operations to measure")
	clients := f.String("clients", "16,64", "numbers of clients")
	erase := f.String("erase", "10,1000,10000", "blobs of the executions to erase")
	if err := f.Parse(args); err != nil {
		return cfg, err
	}
	if f.NArg() > 0 {
		return cfg, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	if cfg.servers, err = words("servers", *servers, serverFloor, serverBlobd, serverMinIO, serverVGW, overMinIO, overVGW); err != nil {
		return cfg, err
	}
	if cfg.ops, err = words("ops", *ops, opPut, opPutNew, opGet, opGetNoCache, opBatch, opErase); err != nil {
		return cfg, err
	}
	if cfg.clients, err = numbers("clients", *clients); err != nil {
		return cfg, err
	}
	if cfg.erase, err = numbers("erase", *erase); err != nil {
		return cfg, err
	}
	if cfg.driver, err = driver(cfg.driverName); err != nil {
		return cfg, err
	}
	if *large {
		cfg.erase = append(cfg.erase, 100_000)
	}
	if cfg.rounds < 1 || cfg.eraseRuns < 1 || cfg.duration <= 0 {
		return cfg, fmt.Errorf("--rounds, --erase-runs and --duration must be positive")
	}
	return cfg, nil
}

func driver(name string) (load.Driver, error) {
	switch name {
	case "raw":
		return load.Raw, nil
	case "net/http":
		return load.Standard, nil
	}
	return nil, fmt.Errorf("--driver: %q is neither raw nor net/http", name)
}

func words(name, list string, allowed ...string) ([]string, error) {
	all := strings.Split(list, ",")
	for _, w := range all {
		if !slices.Contains(allowed, w) {
			return nil, fmt.Errorf("--%s: %q is none of %s", name, w, strings.Join(allowed, ", "))
		}
	}
	return all, nil
}

func numbers(name, list string) ([]int, error) {
	var all []int
	for w := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(w)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("--%s: %q is no positive number", name, w)
		}
		all = append(all, n)
	}
	return all, nil
}

func (c config) has(server string) bool { return slices.Contains(c.servers, server) }
func (c config) does(op string) bool    { return slices.Contains(c.ops, op) }
