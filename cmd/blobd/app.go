package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/mattn/go-isatty"
)

// app is one run of one command.
type app struct {
	ctx     context.Context
	environ []string
	grammar *grammar
	json    bool

	stdin          io.Reader
	stdout, stderr io.Writer
}

// config loads the configuration; extra holds the command's own flags by key.
func (a *app) config(extra map[string]string) (config, error) {
	flags := map[string]string{"dataDir": a.grammar.DataDir, "server": a.grammar.Server}
	for key, value := range extra {
		flags[key] = value
	}
	return loadConfig(layers{Flags: flags, Environ: a.environ, File: a.grammar.Config})
}

// log writes JSON lines to stderr.
func (a *app) log(level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(a.stderr, &slog.HandlerOptions{Level: level}))
}

// printJSON prints one value, indented, with its texts as they are.
func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// terminal reports whether a stream is a person's screen or keyboard.
func terminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// finish reports an error and returns the exit code.
func (a *app) finish(err error) int {
	if err == nil {
		return exitOK
	}
	code := exitCode(err)
	var silent *exitStatus
	if errors.As(err, &silent) && silent.err == nil {
		return code
	}
	if a.json {
		_ = json.NewEncoder(a.stderr).Encode(map[string]any{"error": err.Error(), "exitCode": code})
		return code
	}
	fmt.Fprintln(a.stderr, "blobd:", err)
	return code
}
