package api

import "strconv"

// Patterns lists the method and path of every route.
func Patterns(a *API) []string {
	var out []string
	for _, rt := range a.routes {
		out = append(out, rt.pattern)
	}
	return out
}

// LookThrough makes a page of the numbers from a position on that pass, and counts
// those that it read.
func LookThrough(limit int, numbers []int, pass func(int) bool) (found []int, next *string, read int, err error) {
	found, next, err = lookThrough(limit, func(n int, after *int) ([]int, error) {
		rest := numbers
		if after != nil {
			for len(rest) > 0 && rest[0] <= *after {
				rest = rest[1:]
			}
		}
		rest = rest[:min(n, len(rest))]
		read += len(rest)
		return rest, nil
	}, func(n *int) bool { return pass(*n) }, strconv.Itoa)
	return found, next, read, err
}
