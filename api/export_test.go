package api

// Patterns lists the method and path of every route.
func Patterns(a *API) []string {
	var out []string
	for _, rt := range a.routes {
		out = append(out, rt.pattern)
	}
	return out
}
