package api

// laterRoutes are the routes of the contract that this version does not have
// yet. They check the role and answer 501.
func laterRoutes() []route {
	var table []route
	add := func(roles roleSet, path string, methods ...string) {
		for _, m := range methods {
			table = append(table, route{method: m, path: path, id: laterID(m, path), about: "not in this version", roles: roles})
		}
	}

	add(runtimeRole, pathExecution+"/occurrences", "POST")
	add(runtimeRole|auditorRole, pathExecution+"/usage", "GET")
	add(runtimeRole, pathExecution+"/continuation", "PUT", "GET", "DELETE")
	add(runtimeRole, pathExecution+"/steps/{stepId}/live", "POST", "GET")

	add(adminRole, pathTenant+"/capture-mode", "PUT")

	add(anyRole, "/console", "GET")
	return table
}

// laterID makes an operation id of a method and a path.
func laterID(method, path string) string {
	id := []byte(method)
	for i := range len(id) {
		id[i] |= 0x20
	}
	upper := true
	for i := range len(path) {
		c := path[i]
		if c < 'a' || c > 'z' {
			if c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
				id = append(id, c)
			}
			upper = true
			continue
		}
		if upper {
			c &^= 0x20
		}
		id, upper = append(id, c), false
	}
	return string(id)
}
