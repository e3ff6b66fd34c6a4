# blobd. `make` lists what there is.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

DATA ?= .cache/data
LISTEN ?= 127.0.0.1:8080

.PHONY: help build run demo tools test short check fuzz bench clean cluster drill

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 16

build: ## build the static binary bin/blobd
	CGO_ENABLED=0 go build -trimpath -o bin/blobd ./cmd/blobd

run: build ## serve on $(LISTEN) from the data folder $(DATA)
	bin/blobd serve --data-dir $(DATA) --listen $(LISTEN)

demo: build ## show put, resolve, null and erase on a throw-away service
	bin/blobd demo

test: ## install what the tests need once, then run everything: race, integration, fuzzers
	scripts/test

cluster: ## run three nodes over PostgreSQL, MinIO and Vault behind a balancer
	scripts/cluster

drill: ## erase from request to certificate on real servers and search them; restore a backup past the horizon
	scripts/drill

tools: ## install what the tests need: staticcheck, and real servers as programs
	scripts/tools

short: ## the tests of the module without race detector and fuzzing
	go test ./...

check: ## gofmt, vet, staticcheck, go.mod, imports
	scripts/check

fuzz: ## every fuzzer for FUZZTIME (default 300000x)
	FUZZTIME=$${FUZZTIME:-300000x} scripts/fuzz

bench: build ## figures beside a server that stores nothing and MinIO
	cd bench && go run ./cmd/bench

clean: ## remove what was built and the data folder of `make run`
	rm -rf bin .cache
