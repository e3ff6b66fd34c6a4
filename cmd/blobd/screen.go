package main

import (
	"bufio"
	"fmt"
	"strings"
	"unicode"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/blobd/blobd"
)

// confirm asks a person to type a word. Anything else, also the end of the
// input, is a no.
func (a *app) confirm(question, word string) error {
	fmt.Fprintf(a.stderr, "%s? Type %q to go on: ", question, word)
	line, _ := bufio.NewReader(a.stdin).ReadString('\n')
	if strings.TrimRight(line, "\r\n") != word {
		return fmt.Errorf("not confirmed, nothing was done (--yes does not ask): %w", blobd.ErrInvalid)
	}
	return nil
}

// counter shows a number that grows, or a bar towards a total, on a terminal;
// elsewhere it shows nothing.
type counter struct {
	progress *mpb.Progress
	bar      *mpb.Bar
}

// count shows how many things were done, of an unknown number.
func (a *app) count(what string) counter {
	if a.json || !terminal(a.stderr) {
		return counter{}
	}
	p := mpb.New(mpb.WithOutput(a.stderr), mpb.WithWidth(40))
	return counter{p, p.New(0, mpb.SpinnerStyle(), mpb.AppendDecorators(decor.CurrentNoUnit(what+" %d")))}
}

// total shows how many of n things were done.
func (a *app) total(what string, n int64) counter {
	if a.json || n == 0 || !terminal(a.stderr) {
		return counter{}
	}
	p := mpb.New(mpb.WithOutput(a.stderr), mpb.WithWidth(40))
	return counter{p, p.New(n, mpb.BarStyle(), mpb.PrependDecorators(decor.Name(what+" ")), mpb.AppendDecorators(decor.CountersNoUnit("%d / %d")))}
}

func (c counter) set(n int64) {
	if c.bar != nil {
		c.bar.SetCurrent(n)
	}
}

func (c counter) end() {
	if c.bar != nil {
		c.bar.Abort(true)
		c.progress.Wait()
	}
}

// plain makes a text fit for a screen: a model wrote it, and a control
// character in it could speak to the terminal.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || !unicode.IsControl(r) && !unicode.Is(unicode.Bidi_Control, r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}
