#!/bin/bash
# Tokens per second of models/mini-v4: run_mini.sh PROGRAM [REPEATS]
#
# Prefill and decode are measured apart, each as the median of some runs; the table goes to stdout and to
# bench/results/. The text of a run does not matter, so that the end token is ignored.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$1
repeats=${2:-5}
prompt_tokens=512
decode_tokens=128

# Any ordinary tokens: the vocabulary starts with control tokens.
token_ids=$(seq -s, 300 $((299 + prompt_tokens)))

# Runs the program with the given options and prints "prefill decode" in tokens per second.
measure() {
    "$program" generate --model models/mini-v4 --token-ids "$token_ids" --max-tokens $((decode_tokens + 1)) \
        --temperature 0 --ignore-eos --json "$@" |
        jq -r '.timings | "\(.prefill_tokens_per_second) \(.decode_tokens_per_second)"'
}

median_of_column() {
    cut -d' ' -f"$1" | sort -g | awk '{v[NR] = $1} END {printf "%.1f", (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2}'
}

cpu=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)
commit=$(git describe --always --dirty 2>/dev/null || echo unknown)
cores=$(nproc)
result="bench/results/mini-v4-$(date -u +%Y%m%d-%H%M%S).md"
mkdir -p bench/results
{
    echo "# mini-v4 on the CPU"
    echo
    echo "$(date -u +%Y-%m-%dT%H:%MZ), commit $commit, ${cpu:-unknown CPU}, $cores cores, Linux $(uname -r)"
    echo
    echo "Median of $repeats runs: prompt of $prompt_tokens tokens, $decode_tokens new ones, tokens per second."
    echo
    echo "| options | prefill | decode |"
    echo "|---|---|---|"
    for threads in 1 0; do
        runs=$(for ((i = 0; i < repeats; i++)); do measure --threads "$threads"; done)
        echo "| --threads $threads | $(median_of_column 1 <<<"$runs") | $(median_of_column 2 <<<"$runs") |"
    done
} | tee "$result.new"
mv "$result.new" "$result"
echo "written to $result"
