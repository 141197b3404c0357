#!/bin/bash
# Requests at once against numbers of drafts: run_requests.sh PROGRAM [MODEL [OPTIONS...]]
#
# MODEL is models/mini-v4 without it; OPTIONS go to `sluice bench` after the ones below. Results, with machine
# and date, go to bench/results/: a JSON file, a table, and a picture of tokens per second over concurrency.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$1
model=${2:-models/mini-v4}
shift $(($# < 2 ? $# : 2))

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p bench/results
cpu=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)
slug=$(tr -cs '[:alnum:]' - <<<"${cpu:-unknown-cpu}" | tr '[:upper:]' '[:lower:]')
result=bench/results/$(date -u +%Y%m%d)-${slug%-}-requests-$(basename "$model")

"$program" bench --model "$model" --concurrency 1,2,4,8,16,32,64 --repeats 15 --prefix-tokens 4000 "$@" \
    --json --plot "$work/plot.svg" >"$work/report.json"
jq --arg date "$(date -u +%Y-%m-%dT%H:%MZ)" --arg kernel "$(uname -sr)" --argjson cores "$(nproc)" \
    --arg commit "$(git describe --always --dirty 2>/dev/null || echo unknown)" \
    '{date: $date, commit: $commit, kernel: $kernel, cores: $cores} + .' "$work/report.json" >"$result.json"
mv "$work/plot.svg" "$result.svg"

jq -r '
    def fixed(digits): . * pow(10; digits) | round / pow(10; digits) | tostring;
    def share($part; $whole): if $whole > 0 then $part / $whole | fixed(2) else "-" end;
    def line: "| \(.concurrency) | \(.drafts) | \(.tokens_per_second | fixed(0))" +
        " (\(.min_tokens_per_second | fixed(0)) to \(.max_tokens_per_second | fixed(0)))" +
        " | \(.over_off | fixed(3)) | \(.over_best_fixed | fixed(3)) | \(.first_token_seconds * 1e3 | fixed(1))" +
        " | \(.token_seconds * 1e3 | fixed(2)) | \(.planning_fraction * 100 | fixed(2)) %" +
        " | \(.mean_accepted_length | fixed(2))" +
        " | \([.accepted_drafts, .verified_drafts] | transpose | map(share(.[0]; .[1])) | join(" ")) |";
    "# Requests at once: \(.model) on \(.machine.cpu)\n",
    "\(.date), commit \(.commit), \(.machine.threads) threads on \(.cores) cores (\(.machine.cpu_features)), \(.kernel)\n",
    "Prompts of \(.request_tokens) tokens, answers of half to one and a half times \(.gen_tokens) at temperature \(.temperature); " +
        "median of \(.repeats) repeats, ratios are medians of ratios within repeats.\n",
    "| requests | drafts | tokens/s | over off | over best fixed | first token ms | ms per token | planning | accepted length | accepted by position |",
    "|---|---|---|---|---|---|---|---|---|---|",
    (.rows[] | line), "",
    (if .prefix then .prefix | "First token of a prompt of \(.prompt_tokens) tokens: \(.cold_seconds * 1e3 | fixed(1)) ms, with " +
        "\(.cached_tokens) of them in the prefix cache \(.hit_seconds * 1e3 | fixed(1)) ms: \(.speedup | fixed(1)) times as fast."
        else empty end)' "$result.json" >"$result.md"
cat "$result.md"
echo "written to $result.md, $result.json and $result.svg"
