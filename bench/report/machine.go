package report

import (
	"os"
	"runtime"
	"strings"
	"time"
)

// Machine says where a run took place.
type Machine struct {
	Date      time.Time `json:"date"`
	CPU       string    `json:"cpu"`
	Cores     int       `json:"cores"`
	Memory    string    `json:"memory"`
	Kernel    string    `json:"kernel"`
	GoVersion string    `json:"goVersion"`
}

// ThisMachine reads what Linux says about itself; what it does not say is empty.
func ThisMachine(now time.Time) Machine {
	return Machine{
		Date:      now.UTC(),
		CPU:       field("/proc/cpuinfo", "model name"),
		Cores:     runtime.NumCPU(),
		Memory:    field("/proc/meminfo", "MemTotal"),
		Kernel:    kernel(),
		GoVersion: runtime.Version(),
	}
}

func field(path, name string) string {
	b, _ := os.ReadFile(path)
	for line := range strings.Lines(string(b)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func kernel() string {
	b, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return strings.TrimSpace(string(b))
}
