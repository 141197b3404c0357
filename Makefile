# A thin door to CMake. `make help` lists the targets; only git and make are assumed to be there.
PREFIX ?= /usr/local
# Tests run side by side; ninja finds the number of cores by itself.
TEST_JOBS ?= $(shell nproc 2>/dev/null || echo 1)
# Seconds for each fuzzer in test-full.
FUZZ_SECONDS ?= 60

SLUICE := build/release/bin/sluice
RUN_STORY := $(SLUICE) generate --model models/mini-v4 --chat --no-thinking --temperature 0 \
	--prompt "Tell me a story about a fox."
RUN_SUM := $(SLUICE) generate --model models/mini-v4 --chat --thinking --temperature 0 \
	--system "You are a kind teacher." \
	--prompt "Rosa has 41 figs and buys 17 more. How many figs does Rosa have now?"

.PHONY: help build run test test-full test-release test-asan test-tsan test-emulated \
	test-builds test-ranks test-valgrind test-lm-eval test-load fuzz bench check-style tidy format clean \
	install build-packages test-packages

help:
	@echo "make build        build the program: $(SLUICE)"
	@echo "make run          build, then generate text with the bundled model models/mini-v4"
	@echo "make test         all tests: release, sanitizers, style (docs/testing.md)"
	@echo "make test-full    the same and what takes long: ThreadSanitizer, emulation, all"
	@echo "                  layouts of ranks, valgrind, fuzzers, clang-tidy"
	@echo "make bench        measure tokens per second; results go to bench/results/"
	@echo "make check-style  formatting, include table, sizes, headers, scripts, spelling"
	@echo "make format       format all C files"
	@echo "make tidy         clang-tidy over all C files"
	@echo "make install      install below PREFIX (default /usr/local), within DESTDIR if given"
	@echo "make clean        remove build/"

build-packages:
	@tools/install_packages build

test-packages:
	@tools/install_packages test

# Only the program: the tests need more packages.
build: build-packages
	cmake --preset release --log-level=WARNING
	cmake --build --preset release --target sluice sluice_shared

run: build
	@tools/run_example '$(RUN_STORY)'
	@tools/run_example '$(RUN_SUM)'

# One after the other: each part takes all cores.
test: test-packages
	$(MAKE) --no-print-directory test-release
	$(MAKE) --no-print-directory test-asan
	$(MAKE) --no-print-directory check-style
	@echo "All tests passed."

test-release: test-packages
	cmake --preset release --log-level=WARNING
	cmake --build --preset release
	ctest --test-dir build/release --output-on-failure --no-tests=error -j $(TEST_JOBS)

test-asan: test-packages
	cmake --preset asan --log-level=WARNING
	cmake --build --preset asan
	ctest --test-dir build/asan --output-on-failure --no-tests=error -LE slow -j $(TEST_JOBS)

test-tsan: test-packages
	cmake --preset tsan --log-level=WARNING
	cmake --build --preset tsan
	ctest --test-dir build/tsan --output-on-failure --no-tests=error -LE slow -j $(TEST_JOBS)

# The portable kernels on another architecture, and the program on older processors.
test-emulated: build
	@tools/install_packages emulation
	tests/cli/test_emulated.sh $(SLUICE) .
	cmake --preset aarch64 --log-level=WARNING
	cmake --build --preset aarch64
	ctest --test-dir build/aarch64 --output-on-failure --no-tests=error -j $(TEST_JOBS) \
		-R '^test_(number_format|rope|rows|linear|attention|swiglu|hyper|router|compressor|indexer|quantize|select|json|tokenizer|session|deepseek|noise|sampler$$)'

# Reads of memory that nobody wrote: what the sanitizers do not see.
test-valgrind: build
	@tools/install_packages valgrind
	tests/cli/test_valgrind.sh $(SLUICE) .

# Every layout of ranks as processes, replicas in lockstep for long, as processes with late messages too, and
# ranks on two hosts that are network namespaces; those are skipped (77) where there can be none.
test-ranks: test-packages
	@tools/install_packages hosts
	cmake --preset release --log-level=WARNING
	cmake --build --preset release --target sluice test_job test_job_delays rank_checkpoints test_replica_liveness
	for ranks in 2 3 4 8; do \
		OMP_WAIT_POLICY=passive mpirun -n $$ranks --oversubscribe --bind-to none --allow-run-as-root \
			--mca mpi_yield_when_idle 1 build/release/tests/ranks/test_job build/release/tests/ranks/layout-v4 all || exit 1; \
	done
	for ranks in 2 4; do \
		OMP_WAIT_POLICY=passive mpirun -n $$ranks --oversubscribe --bind-to none --allow-run-as-root \
			--mca mpi_yield_when_idle 1 build/release/tests/ranks/test_job_delays build/release/tests/ranks/tiny-v4 2000 || exit 1; \
	done
	build/release/tests/model/test_replica_liveness 100000
	tests/ranks/test_hosts.sh $(SLUICE) . || test $$? -eq 77

# Ways to build that no other target takes.
test-builds: test-packages
	tools/check_builds

# lm-evaluation-harness against a server; its packages come from PyPI.
test-lm-eval: build test-packages
	test -x build/release/python-lm-eval/bin/lm_eval || { \
		python3 -m venv build/release/python-lm-eval && \
		build/release/python-lm-eval/bin/pip install --quiet -r tests/server/lm_eval_requirements.txt; }
	tests/server/test_lm_eval.py $(SLUICE) . build/release/python-lm-eval

# Many clients at once for a minute.
test-load: build
	tests/server/test_serve_load.py $(SLUICE) . 60

fuzz: test-packages
	cmake --preset fuzz --log-level=WARNING
	cmake --build --preset fuzz --target fuzzers
	tools/run_fuzzers build/fuzz $(FUZZ_SECONDS)

test-full: test
	$(MAKE) --no-print-directory test-tsan
	$(MAKE) --no-print-directory test-emulated
	$(MAKE) --no-print-directory test-ranks
	$(MAKE) --no-print-directory test-valgrind
	$(MAKE) --no-print-directory test-lm-eval
	$(MAKE) --no-print-directory test-load
	$(MAKE) --no-print-directory fuzz
	$(MAKE) --no-print-directory test-builds
	$(MAKE) --no-print-directory tidy
	@echo "All tests of test-full passed."

bench: test-packages build
	bench/run_mini.sh $(SLUICE)
	$(SLUICE) bench --model models/mini-v4 --concurrency 1,4,16 --gen-tokens 32 --repeats 3 --prefix-tokens 4000
	cmake --build --preset release --target measure_grammar_masks
	build/release/tests/text/measure_grammar_masks

check-style: test-packages
	tools/check_style

tidy: test-packages
	cmake --preset debug --log-level=WARNING
	tools/check_tidy build/debug

format: test-packages
	tools/list_c_files | xargs clang-format-14 -i

clean:
	rm -rf build

install: build
	cmake --install build/release --prefix $(PREFIX)
