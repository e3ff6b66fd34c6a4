package main

import (
	"fmt"
	"runtime/debug"
)

// version is the module's version as the Go command stamped it, or "devel".
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}

type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(a *app) error {
	info, _ := debug.ReadBuildInfo()
	goVersion := ""
	if info != nil {
		goVersion = info.GoVersion
	}
	if a.json {
		return a.printJSON(map[string]string{"version": version(), "go": goVersion})
	}
	fmt.Fprintf(a.stdout, "blobd %s (%s)\n", version(), goVersion)
	return nil
}
