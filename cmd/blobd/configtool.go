package main

import (
	"fmt"
	"text/tabwriter"
)

type configToolCmd struct {
	Check configCheckCmd `cmd:"" help:"Print the effective configuration, secrets hidden; an unknown key is an error."`
}

type configCheckCmd struct{}

// effective is one line of the effective configuration.
type effective struct {
	Key    string `json:"key"`
	Env    string `json:"env"`
	Value  string `json:"value"`
	Source string `json:"source"` // flag, environment, file or default
	Means  string `json:"means"`
}

// Run loads the configuration as every command does, and prints it.
func (configCheckCmd) Run(a *app) error {
	cfg, err := a.config(nil)
	if err != nil {
		return err
	}
	lines := cfg.effective()
	if a.json {
		return a.printJSON(lines)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tVALUE\tSOURCE\tVARIABLE")
	for _, l := range lines {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", l.Key, l.Value, l.Source, l.Env)
	}
	return w.Flush()
}

// effective lists the keys of this version in the order of settings.go.
func (c *config) effective() []effective {
	var lines []effective
	for _, s := range settings() {
		if s.Later {
			continue
		}
		l := effective{Key: s.Key, Env: s.Env, Value: c.values.String(s.Key), Source: c.chosen[s.Key], Means: s.Means}
		if s.Kind == asSecret && l.Value != "" {
			l.Value = "[secret]"
		}
		if l.Value == "" {
			l.Value = "-"
		}
		if l.Source == "" {
			l.Source = "default"
		}
		lines = append(lines, l)
	}
	return lines
}
