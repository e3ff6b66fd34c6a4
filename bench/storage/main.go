// Command storage compares ways to keep sealed bytes in a folder: concurrent
// durable puts of 8 KiB, random gets, and whether deleted bytes can still be
// found in the files. Every way syncs before it answers. The prototypes hold
// just enough to be measured; only "packed segments (backends/fs)" is a store.
//
//	go run . -dir /a/folder/on/the/disk
package main

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/backends"
)

// way is one way to store objects.
type way interface {
	put(name string, data []byte) error
	get(name string) ([]byte, error)
	// erase deletes as well as the way can with its ordinary means.
	erase(name string) error
	close() error
}

type contender struct {
	name string
	open func(folder string) (way, error)
}

func main() {
	dir := flag.String("dir", ".", "where to make the folders")
	seconds := flag.Float64("seconds", 4, "how long each figure is measured")
	rounds := flag.Int("rounds", 3, "how often everything is measured; the median is printed")
	only := flag.String("only", "", "measure this one only")
	flag.Parse()
	b := bench{dir: *dir, span: time.Duration(*seconds * float64(time.Second)), rounds: *rounds, window: newWindow()}
	fmt.Printf("%s, %d CPUs, %s, %s\n\n", runtime.Version(), runtime.NumCPU(), time.Now().Format(time.DateOnly), filesystem(*dir))
	var rows []*row
	for _, c := range contenders() {
		if *only == "" || c.name == *only {
			rows = append(rows, &row{contender: c})
		}
	}
	// Rounds go over all ways, so that what else the machine does meets them alike.
	for range *rounds {
		for _, r := range rows {
			if err := b.round(r); err != nil {
				log.Fatalf("%s: %v", r.name, err)
			}
		}
	}
	if err := print(rows); err != nil {
		log.Fatal(err)
	}
}

func print(rows []*row) error {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "way\tputs/s, 1\tputs/s, 16\tputs/s, 64\tCPU µs, 64\tgets/s, 16\tCPU µs\tbytes after deletion")
	for _, r := range rows {
		one, some, many, gets := median(r.puts[0]), median(r.puts[1]), median(r.puts[2]), median(r.gets)
		fmt.Fprintf(out, "%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%s\n", r.name,
			one.perSecond, some.perSecond, many.perSecond, many.cpu, gets.perSecond, gets.cpu, r.left)
	}
	return out.Flush()
}

// row gathers the figures of one way, one for each round.
type row struct {
	contender
	puts [3][]figure // by 1, 16 and 64 clients
	gets []figure
	left string
}

type bench struct {
	dir    string
	span   time.Duration
	rounds int
	window []byte
}

// figure is a rate and what one operation costs in processor time.
type figure struct{ perSecond, cpu float64 }

func (b bench) round(r *row) error {
	for i, clients := range []int{1, 16, 64} {
		if err := b.fill(r, i, clients); err != nil {
			return err
		}
	}
	return nil
}

// fill measures puts into a new folder, and with 16 clients gets of what was put.
func (b bench) fill(r *row, i, clients int) error {
	folder, err := os.MkdirTemp(b.dir, "storage-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	w, err := r.open(folder)
	if err != nil {
		return err
	}
	defer w.close()
	var stored atomic.Int64
	puts, err := b.measure(clients, func(*rand.Rand) error {
		n := stored.Add(1)
		return w.put(nameOf(n), b.body(n))
	})
	if err != nil {
		return err
	}
	r.puts[i] = append(r.puts[i], puts)
	if clients != 16 {
		return nil
	}
	n := stored.Load()
	gets, err := b.measure(clients, func(random *rand.Rand) error {
		_, err := w.get(nameOf(1 + random.Int64N(n)))
		return err
	})
	if err != nil {
		return err
	}
	r.gets = append(r.gets, gets)
	r.left, err = leftAfterErase(w, folder)
	return err
}

// measure runs op in many goroutines for the span.
func (b bench) measure(clients int, op func(*rand.Rand) error) (figure, error) {
	ctx, cancel := context.WithTimeout(context.Background(), b.span)
	defer cancel()
	var n atomic.Int64
	errs := make([]error, clients)
	began, cpu := time.Now(), processorTime()
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for ctx.Err() == nil && errs[i] == nil {
				errs[i] = op(r)
				n.Add(1)
			}
		})
	}
	wg.Wait()
	took, used := time.Since(began), processorTime()-cpu
	for _, err := range errs {
		if err != nil {
			return figure{}, err
		}
	}
	count := float64(n.Load())
	return figure{count / took.Seconds(), used.Seconds() / count * 1e6}, nil
}

// leftAfterErase deletes an object by ordinary means and looks for its bytes.
func leftAfterErase(w way, folder string) (string, error) {
	marker := bytes.Repeat([]byte("these bytes are to be gone; "), 300)[:bodySize]
	name := nameOf(1 << 40)
	if err := w.put(name, marker); err != nil {
		return "", err
	}
	if err := w.erase(name); err != nil {
		return "", err
	}
	found := "none"
	err := filepath.WalkDir(folder, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		if bytes.Contains(b, marker[:500]) {
			found = "in " + filepath.Base(p)
		}
		return err
	})
	return found, err
}

func nameOf(i int64) string {
	r := rand.New(rand.NewPCG(uint64(i), 7))
	var tag blobd.ExecutionTag
	var ref blobd.Ref
	for j := range ref {
		ref[j] = byte(r.Uint32())
	}
	copy(tag[:], ref[:1])
	return backends.BlobName("tenant", tag, ref)
}

const bodySize = 8 << 10

// newWindow returns random bytes that bodies are cut from.
func newWindow() []byte {
	b := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// body returns 8 KiB that look sealed.
func (b bench) body(i int64) []byte {
	at := (i * 127) % int64(len(b.window)-bodySize)
	return b.window[at : at+bodySize]
}

// median orders by rate.
func median(f []figure) figure {
	f = slices.SortedFunc(slices.Values(f), func(a, b figure) int { return cmp.Compare(a.perSecond, b.perSecond) })
	return f[len(f)/2]
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		log.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func filesystem(dir string) string {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		log.Fatal(err)
	}
	return fmt.Sprintf("filesystem %#x", s.Type)
}
