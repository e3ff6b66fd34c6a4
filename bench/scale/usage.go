package scale

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of the times in /proc/PID/stat.
const clockTick = 10 * time.Millisecond

// stat is what is wanted of /proc/PID/stat.
type stat struct {
	parent int
	cpu    time.Duration // its own and that of children it waited for
}

func readStat(pid int) (s stat, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return s, err
	}
	// PID (NAME) STATE PARENT …, and the name may hold anything.
	fields := strings.Fields(string(b)[strings.LastIndexByte(string(b), ')')+1:])
	if len(fields) < 15 {
		return s, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	if s.parent, err = strconv.Atoi(fields[1]); err != nil {
		return s, err
	}
	for _, f := range fields[11:15] { // user, system, and the same of children
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return s, err
		}
		s.cpu += time.Duration(n) * clockTick
	}
	return s, nil
}

// family returns a process and its children.
func family(parent int) ([]int, error) {
	if _, err := readStat(parent); err != nil {
		return nil, err
	}
	pids := []int{parent}
	paths, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		pid, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			continue
		}
		if s, err := readStat(pid); err == nil && s.parent == parent { // it may have ended
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// cpuOf adds up processor time. A process that ended counts with its parent.
func cpuOf(pids []int) (total time.Duration) {
	for _, pid := range pids {
		if s, err := readStat(pid); err == nil {
			total += s.cpu
		}
	}
	return total
}

// memoryOf adds up resident memory in bytes; what processes share counts once.
func memoryOf(pids []int) (total int64, err error) {
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			continue // it ended
		}
		for line := range strings.Lines(string(b)) {
			rest, ok := strings.CutPrefix(line, "Pss:")
			if !ok {
				continue
			}
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			if err != nil {
				return 0, err
			}
			total += kib << 10
		}
	}
	return total, nil
}
