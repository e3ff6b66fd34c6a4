package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/blobd/blobd"
	"github.com/blobd/blobd/api/wire"
	"github.com/blobd/blobd/client"
)

// callFlags say which model call a text comes from.
type callFlags struct {
	Step     string `help:"Step id." placeholder:"ID"`
	Attempt  int64  `help:"Attempt of the step." default:"1"`
	Class    string `help:"Retention class (default: reasoning)." placeholder:"CLASS"`
	Provider string `help:"Who runs the model." placeholder:"NAME"`
	Model    string `help:"The model." placeholder:"NAME"`
}

// people says whom a text is about and who may see it. Both come from files: a
// command line is kept in histories and shown to every process.
type people struct {
	SubjectsFile string `help:"File with one person's identifier per line." type:"path" placeholder:"FILE"`
	AudienceFile string `help:"File with a JSON array of principals." type:"path" placeholder:"FILE"`
}

func (p people) read() (subjects []string, audience []blobd.Principal, err error) {
	if p.SubjectsFile != "" {
		b, err := os.ReadFile(p.SubjectsFile)
		if err != nil {
			return nil, nil, err
		}
		for line := range strings.Lines(string(b)) {
			if s := strings.TrimRight(line, "\r\n"); s != "" {
				subjects = append(subjects, s)
			}
		}
	}
	if p.AudienceFile != "" {
		b, err := os.ReadFile(p.AudienceFile)
		if err != nil {
			return nil, nil, err
		}
		if err := json.Unmarshal(b, &audience); err != nil {
			return nil, nil, fmt.Errorf("%s: want a JSON array of principals: %w", p.AudienceFile, blobd.ErrInvalid)
		}
	}
	return subjects, audience, nil
}

type putCmd struct {
	Execution string `arg:"" help:"Execution id."`
	callFlags
	people
	Kind        string `help:"text or summary." default:"text"`
	ContentType string `help:"Media type (default: text/plain; charset=utf-8)." placeholder:"TYPE"`
	File        string `help:"Read the text here; - is stdin." default:"-" placeholder:"FILE"`
}

// Run keeps one text and prints its ref.
func (p putCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	subjects, audience, err := p.read()
	if err != nil {
		return err
	}
	body, err := a.input(p.File)
	if err != nil {
		return err
	}
	defer clear(body)
	stored, _, err := r.Put(a.ctx, p.Execution, client.Put{
		StepID: p.Step, Attempt: p.Attempt, Class: p.Class, Kind: p.Kind, Provider: p.Provider, Model: p.Model,
		ContentType: p.ContentType, Subjects: subjects, Audience: audience, Text: body,
	})
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(stored)
	}
	fmt.Fprintln(a.stdout, stored.Ref)
	return nil
}

// input reads a file whole; - is stdin.
func (a *app) input(path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(a.stdin)
	}
	return os.ReadFile(path)
}

type captureCmd struct {
	Execution string `arg:"" help:"Execution id."`
	File      string `help:"Read the call here, as JSON in the shape of POST …/captures; - is stdin." default:"-" placeholder:"FILE"`
}

// Run keeps the reasoning of one model call and prints a line per part.
func (c captureCmd) Run(a *app) error {
	r, err := a.remote()
	if err != nil {
		return err
	}
	body, err := a.input(c.File)
	if err != nil {
		return err
	}
	defer clear(body)
	var call wire.CaptureRequest
	if err := strictJSON(body, &call); err != nil {
		return err
	}
	captured, err := r.Capture(a.ctx, c.Execution, call)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(captured)
	}
	for _, p := range captured.Parts {
		fmt.Fprintf(a.stdout, "%s\t%s\n", p.Kind, whereKept(p))
	}
	return nil
}

func whereKept(p wire.ReasoningPart) string {
	switch {
	case p.TextRef != "":
		return p.TextRef
	case p.Omitted:
		return "omitted"
	}
	return "-"
}

// strictJSON reads one value without unknown members. Its error repeats nothing
// of the value.
func strictJSON(b []byte, v any) error {
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("data after the value")
		}
	}
	if err != nil {
		return fmt.Errorf("the input is not JSON in the shape of the contract (near byte %d): %w", d.InputOffset(), blobd.ErrInvalid)
	}
	return nil
}
