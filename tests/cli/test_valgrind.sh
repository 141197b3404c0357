#!/usr/bin/env bash
# Kernels and a generation under valgrind, which sees reads of memory that nobody wrote. Usage:
# test_valgrind.sh PROGRAM SOURCE_DIR
#
# valgrind knows no AVX-512: kernels up to AVX2 run. The sanitizers cover the others, though not this fault.
set -u
program=$1
source_dir=$2
failures=0

check() {
    if ! output=$(valgrind --quiet --error-exitcode=9 "$program" "$@" --cpu-features avx2 --threads 2 2>&1); then
        echo "FAILED: sluice $*" >&2
        tail -n 40 <<<"$output" >&2
        failures=$((failures + 1))
    fi
}

check kernelcheck --quick
for numerics in native ideal; do
    check generate --model "$source_dir/models/mini-v4" --chat --no-thinking --temperature 0 --max-tokens 8 \
        --numerics "$numerics" --prompt "What is the capital of Peru?"
done
exit "$failures"
