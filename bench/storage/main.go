// Command storage compares ways to keep sealed bytes in a folder: concurrent
// durable puts of 8 KiB, random gets, and whether deleted bytes can still be
// found in the files. Every way syncs before it answers. The prototypes hold
// just enough to be measured; only "packed segments (backends/fs)" is a store.
//
//	go run . -dir /a/folder/on/the/disk
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
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
	b := bench{dir: *dir, span: time.Duration(*seconds * float64(time.Second)), rounds: *rounds}
	fmt.Printf("%s, %d CPUs, %s, %s\n\n", runtime.Version(), runtime.NumCPU(), time.Now().Format(time.DateOnly), filesystem(*dir))
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "way\tputs/s, 16\tCPU µs\tputs/s, 64\tCPU µs\tgets/s, 16\tCPU µs\tbytes after deletion")
	for _, c := range contenders() {
		if *only != "" && c.name != *only {
			continue
		}
		if err := b.row(out, c); err != nil {
			log.Fatalf("%s: %v", c.name, err)
		}
	}
	if err := out.Flush(); err != nil {
		log.Fatal(err)
	}
}

type bench struct {
	dir    string
	span   time.Duration
	rounds int
}

// figure is a rate and what one operation costs in processor time.
type figure struct{ perSecond, cpu float64 }

func (b bench) row(out *tabwriter.Writer, c contender) error {
	var puts16, puts64, gets []figure
	found := ""
	for range b.rounds {
		p16, g, left, err := b.round(c, 16)
		if err != nil {
			return err
		}
		p64, _, _, err := b.round(c, 64)
		if err != nil {
			return err
		}
		puts16, puts64, gets, found = append(puts16, p16), append(puts64, p64), append(gets, g), left
	}
	a, z, g := median(puts16), median(puts64), median(gets)
	_, err := fmt.Fprintf(out, "%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%s\n",
		c.name, a.perSecond, a.cpu, z.perSecond, z.cpu, g.perSecond, g.cpu, found)
	return err
}

func (b bench) round(c contender, clients int) (puts, gets figure, left string, err error) {
	folder, err := os.MkdirTemp(b.dir, "storage-*")
	if err != nil {
		return puts, gets, "", err
	}
	defer os.RemoveAll(folder)
	w, err := c.open(folder)
	if err != nil {
		return puts, gets, "", err
	}
	defer w.close()
	var stored atomic.Int64
	puts, err = b.measure(clients, func(*rand.Rand) error {
		i := stored.Add(1)
		return w.put(nameOf(i), body(i))
	})
	if err != nil {
		return puts, gets, "", err
	}
	n := stored.Load() - int64(clients)
	gets, err = b.measure(16, func(r *rand.Rand) error {
		_, err := w.get(nameOf(1 + r.Int64N(n)))
		return err
	})
	if err != nil {
		return puts, gets, "", err
	}
	left, err = leftAfterErase(w, folder)
	return puts, gets, left, err
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
	marker := bytes.Repeat([]byte("these bytes are to be gone; "), 300)[:8<<10]
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

// body returns 8 KiB that look sealed, from a window of random bytes made once.
func body(i int64) []byte {
	at := (i * 127) % int64(len(window)-8<<10)
	return window[at : at+8<<10]
}

var window = func() []byte {
	b := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}()

func median(f []figure) figure {
	best := f[0]
	for _, x := range f {
		below := 0
		for _, y := range f {
			if y.perSecond < x.perSecond {
				below++
			}
		}
		if below == len(f)/2 {
			best = x
		}
	}
	return best
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
