#!/bin/bash
# Speed of models of real shapes with random weights: run_large.sh PROGRAM [CONFIG...]
#
# CONFIG names a file of bench/configs without .json; bench-s and bench-m are run by default, flash-4l needs
# 16 GB of disk and as much memory. Checkpoints are written once to ${TMPDIR:-/tmp}/sluice-bench. Results, with
# machine, date and floors, go to bench/results/: a JSON file, a table, and a picture of times over context.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$1
shift
configs=("$@")
[[ ${#configs[@]} -gt 0 ]] || configs=(bench-s bench-m)
# shellcheck source=bench/synthesise.sh
. bench/synthesise.sh
prompts=128,512,2048
batches=1,4,8,16
gen_tokens=64
repeats=5
plot_contexts=128,512,2048,8192,32768
plot_repeats=1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p bench/results
cpu=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)
slug=$(tr -cs '[:alnum:]' - <<<"${cpu:-unknown-cpu}" | tr '[:upper:]' '[:lower:]')
result=bench/results/$(date -u +%Y%m%d)-${slug%-}

for name in "${configs[@]}"; do
    synthesise "$program" "$name"
    "$program" bench --model "$cache/$name" --prompt-tokens "$prompts" --batch "$batches" --repeats "$repeats" \
        --gen-tokens "$gen_tokens" --json >"$work/matrix.json"
    "$program" bench --model "$cache/$name" --context "$plot_contexts" --batch 1 --repeats "$plot_repeats" \
        --gen-tokens "$gen_tokens" --json --plot "$result-$name.svg" >"$work/contexts.json"
    jq --arg name "$name" '. + {model: $name} + {context_rows: $contexts[0].rows}' \
        --slurpfile contexts "$work/contexts.json" "$work/matrix.json" >>"$work/models.json"
done

jq -s --arg date "$(date -u +%Y-%m-%dT%H:%MZ)" --arg kernel "$(uname -sr)" \
    --arg commit "$(git describe --always --dirty 2>/dev/null || echo unknown)" \
    --argjson cores "$(nproc)" --argjson memory_bytes "$(awk '/^MemTotal/ {print $2 * 1024}' /proc/meminfo)" \
    '{date: $date, commit: $commit, kernel: $kernel, cores: $cores, memory_bytes: $memory_bytes, models: .}' \
    "$work/models.json" >"$result.json"

jq -r '
    def fixed(digits): . * pow(10; digits) | round / pow(10; digits) | tostring;
    def percent: . * 100 | fixed(1) + " %";
    def line: "| \(.prompt_tokens) | \(.batch) | \(.prefill_tokens_per_second | fixed(1)) | \(.flop_fraction | percent)" +
        " | \(.decode_tokens_per_second | fixed(2)) | \(.decode.seconds * 1e3 | fixed(2))" +
        " (\(.decode.min_seconds * 1e3 | fixed(2)) to \(.decode.max_seconds * 1e3 | fixed(2)))" +
        " | \(.decode.read_bytes_per_second / 1e9 | fixed(1)) | \(.floor_seconds * 1e3 | fixed(2)) | \(.bytes_per_step / 1e6 | fixed(1)) | \(.bandwidth_fraction | percent) |";
    "# Models with random weights on \(.models[0].machine.cpu)\n",
    "\(.date), commit \(.commit), \(.models[0].machine.threads) threads on \(.cores) cores, " +
        "\(.memory_bytes / 1e9 | fixed(1)) GB of memory, \(.kernel)\n",
    (.models[] |
        "## \(.model)\n", "\(.description)\n",
        "Limits measured in the same run: \(.machine.read_bytes_per_second / 1e9 | fixed(1)) GB/s, " +
            "\(.peak_flops_per_second / 1e9 | fixed(0)) GFLOP/s (\(.machine.cpu_features)). " +
            "Median of \(.repeats); loaded in \(.load_seconds | fixed(3)) s, " +
            "at most \(.rows[-1].peak_rss_bytes / 1e6 | fixed(0)) MB resident, " +
            "\(.large_page_fraction * 100 | fixed(0)) % of mapped files in large pages.\n",
        "| context | batch | prefill tokens/s | of peak | decode tokens/s | ms per step | reads GB/s | floor ms | MB per step | of bandwidth |",
        "|---|---|---|---|---|---|---|---|---|---|",
        (.rows[] | line), "",
        "Over the context, one sequence:\n",
        "| context | batch | prefill tokens/s | of peak | decode tokens/s | ms per step | reads GB/s | floor ms | MB per step | of bandwidth |",
        "|---|---|---|---|---|---|---|---|---|---|",
        (.context_rows[] | line), "")' "$result.json" >"$result.md"
cat "$result.md"
echo "written to $result.md, $result.json and $result-*.svg"
