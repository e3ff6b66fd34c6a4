// Command blobd is the service, its client and its offline tools in one binary.
//
// To follow a start read serve.go; what is wired to what, build.go; what a key
// of the configuration means, settings.go; which commands there are, grammar.go.
// run takes everything from outside as arguments, so that a test is a caller
// like any other.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

func main() {
	os.Exit(run(untilSignal(), os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}

// untilSignal returns a context that the first signal ends. By the time it has
// ended the handler is gone: a second signal ends the process at once.
func untilSignal() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	first := make(chan os.Signal, 1)
	signal.Notify(first, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-first
		signal.Stop(first)
		cancel()
	}()
	return ctx
}

// exited carries the exit code that package kong asks for, as after --help.
type exited int

// run runs one command and returns its exit code. It ends soon after ctx does.
func run(ctx context.Context, args, environ []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		asked, ok := p.(exited)
		if !ok {
			panic(p)
		}
		code = int(asked)
	}()
	var g grammar
	parser, err := kong.New(&g,
		kong.Name("blobd"),
		kong.Description("Keeps what a model thought for as long as it may be kept, and no longer."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { panic(exited(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		fmt.Fprintln(stderr, "blobd:", err)
		return exitError
	}
	command, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(stderr, "blobd: %v (blobd --help lists the commands)\n", err)
		return exitError
	}
	a := &app{
		ctx: ctx, environ: environ, grammar: &g, json: g.JSON,
		stdin: stdin, stdout: stdout, stderr: stderr,
	}
	return a.finish(command.Run(a))
}
