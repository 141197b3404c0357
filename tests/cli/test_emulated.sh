#!/usr/bin/env bash
# The program on processors that this machine is not (B169, B177). Usage: test_emulated.sh PROGRAM SOURCE_DIR
#
# The same answer must come from a processor without AVX, from one with AVX2, and from this one.
set -u
program=$1
source_dir=$2
failures=0

ask() {
    "$@" generate --model "$source_dir/models/mini-v4" --chat --no-thinking --temperature 0 --numerics ideal \
        --prompt "What is the capital of Peru?" 2>/dev/null
}

wanted=$(ask "$program") || exit 1
for cpu in Nehalem Haswell; do
    got=$(ask qemu-x86_64 -cpu "$cpu" "$program")
    if [ "$got" != "$wanted" ]; then
        echo "FAILED: $cpu: wanted <$wanted>, got <$got>" >&2
        failures=$((failures + 1))
    fi
done
exit "$failures"
