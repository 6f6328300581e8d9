# Build results and downloads live outside the clone, so that every clone shares them.
LIQO_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/liqo
CARGO_TARGET_DIR ?= $(LIQO_CACHE)/target
export LIQO_CACHE CARGO_TARGET_DIR
export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/local/go/bin:/usr/sbin:/sbin

# Logs of a CI run are read later and elsewhere: no colours, no progress bars.
ifeq ($(CI),true)
export CARGO_TERM_COLOR := never
export CARGO_TERM_PROGRESS_WHEN := never
export NO_COLOR := 1
# What is built once has no use for what would make the next build quicker.
export CARGO_INCREMENTAL := 0
endif

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup quick-start test check e2e bench bench-playground bench-liqo bench-hub bench-offloading bench-failover bench-gateway bench-tunnel images engine down clean distclean

help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z0-9-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: ## Install what this machine lacks, or say how to
	@scripts/setup
	@scripts/claim-target

quick-start: setup ## Bring up clusters on this machine and walk through what Liqo does
	@scripts/quick-start

test: check ## Run every check and every test
	cargo test --workspace --exclude liqo-e2e --locked
	@$(MAKE) --no-print-directory e2e

check: setup ## Check format, lints, documentation and the rules of the code
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps --locked
	cargo xtask check
	@if command -v cargo-deny >/dev/null; then \
		echo "cargo deny check"; cargo deny check; \
	else \
		echo "cargo deny is not installed: licences and bans are not checked"; \
	fi

e2e: setup ## Run the scenarios on real clusters
	./playground engine --all
	./playground images
	cargo test -p liqo-e2e --locked -- --test-threads=1

bench: bench-playground bench-liqo bench-hub bench-offloading bench-failover bench-gateway bench-tunnel ## Run every benchmark

bench-playground: setup ## Measure how fast the playground is
	./playground bench

bench-liqo: setup ## Measure how fast and how small Liqo is
	./playground images
	cargo run --quiet --locked -p liqo-bench
	cargo run --quiet --locked -p liqo-bench external

bench-hub: setup ## Measure what each of eight peers costs a cluster
	./playground images
	cargo run --quiet --locked -p liqo-bench hub

bench-offloading: setup ## Measure pods in another cluster against pods asked for there
	./playground engine --all
	./playground images
	cargo run --quiet --locked -p liqo-bench offloading
	cargo run --quiet --locked -p liqo-bench scale 1000
	cargo run --quiet --locked -p liqo-bench floor 1000

bench-failover: setup ## Measure how long a gateway that is killed is missed
	./playground images
	cargo run --quiet --locked -p liqo-bench failover

bench-gateway: setup ## Measure what sixteen peers cost a gateway
	./playground images
	cargo run --quiet --locked -p liqo-bench gateway

bench-tunnel: setup ## Measure our WireGuard beside wireguard-go
	cargo run --quiet --locked -p liqo-bench tunnel

images: setup ## Build the container images
	./playground images

engine: setup ## Build the Kubernetes the playground runs
	./playground engine --all

down: ## Stop the clusters of this clone
	./playground down

clean: ## Stop all clusters and remove what they left in this clone
	@if [ -d .playground ]; then echo "./playground down --all"; ./playground down --all; fi
	rm -rf .playground artifacts

distclean: clean ## Remove the shared caches as well
	@if [ -d "$(LIQO_CACHE)" ]; then chmod -R u+w -- "$(LIQO_CACHE)"; fi
	rm -rf -- "$(LIQO_CACHE)"
