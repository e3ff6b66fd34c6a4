package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestAsk(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("/ready", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/away", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	mux.Handle("/elsewhere", http.RedirectHandler("/ready", http.StatusFound))
	s := httptest.NewServer(mux)
	if err := ask(s.URL + "/ready"); err != nil {
		t.Error(err)
	}
	for _, path := range []string{"/away", "/elsewhere", "/absent"} {
		if ask(s.URL+path) == nil {
			t.Errorf("%s is taken for ready", path)
		}
	}
	s.Close()
	if ask(s.URL+"/ready") == nil {
		t.Error("a server that is gone is taken for ready")
	}
}
