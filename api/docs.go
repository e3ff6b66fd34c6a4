package api

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"strings"
)

//go:embed docs.html
var docsHTML string

//go:embed docs.js
var docsJS string

//go:embed docs.css
var docsCSS string

// page is a static page with the policy that lets it run nothing but its own
// script.
type page struct {
	body                []byte
	contentType, policy []string
}

func newDocs() page {
	html := strings.NewReplacer("/*docs.css*/", docsCSS, "/*docs.js*/", docsJS).Replace(docsHTML)
	return page{
		body:        []byte(html),
		contentType: []string{"text/html; charset=utf-8"},
		policy: []string{"default-src 'none'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
			"style-src " + sourceHash(docsCSS) + "; script-src " + sourceHash(docsJS)},
	}
}

func sourceHash(source string) string {
	sum := sha256.Sum256([]byte(source))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
