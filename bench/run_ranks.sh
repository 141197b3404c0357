#!/bin/bash
# Prompts on two ranks that share one host, with and without sequence parallelism: run_ranks.sh PROGRAM [CONFIG]
#
# CONFIG names a file of bench/configs without .json; bench-s is run by default. Two threads in all: one each on two
# ranks, both on one rank. Layouts take turns, so that what disturbs the machine disturbs all. Speeds, and bytes that
# the first rank sent beside those that `sluice plan` works out by the formulas, go to bench/results/.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$1
name=${2:-bench-s}
# shellcheck source=bench/synthesise.sh
. bench/synthesise.sh
rounds=${ROUNDS:-3}
prompt=512
layouts=("-tp 1" "-tp 2 --sp off" "-tp 2 --sp on" "-tp 2 --sp on --sp-gather early --sp-replicate none"
    "-tp 2 --sp on --moe-comm a2a")

synthesise "$program" "$name"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p bench/results

# measure LAYOUT: one line of JSON.
measure() {
    # shellcheck disable=SC2086 # a layout is several words
    "$program" bench --model "$cache/$name" --prompt-tokens "$prompt" --batch 4 --gen-tokens 16 --repeats 3 \
        --chunk-tokens "$prompt" --threads 2 --json $1 2>/dev/null | jq -c --arg layout "$1" '. + {layout: $layout}'
}

for ((round = 0; round < rounds; round++)); do
    for layout in "${layouts[@]}"; do
        measure "$layout" >>"$work/runs.json"
    done
done
for sp in on off; do
    "$program" plan --model "$cache/$name" --hosts 2x64GB -tp 2 --sp "$sp" --max-num-batched-tokens "$prompt" --json |
        jq -c --arg layout "-tp 2 --sp $sp" '{layout: $layout, bytes: .layouts[0].prefill_bytes}' >>"$work/plans.json"
done

cpu=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)
slug=$(tr -cs '[:alnum:]' - <<<"${cpu:-unknown-cpu}" | tr '[:upper:]' '[:lower:]')
result=bench/results/$(date -u +%Y%m%d)-${slug%-}-ranks-$name
jq -s --arg date "$(date -u +%Y-%m-%dT%H:%MZ)" --arg commit "$(git describe --always --dirty 2>/dev/null || echo unknown)" \
    --arg kernel "$(uname -sr)" --argjson cores "$(nproc)" --arg name "$name" --slurpfile plans "$work/plans.json" '
    def median: sort | .[(length - 1) / 2 | floor];
    {date: $date, commit: $commit, kernel: $kernel, cores: $cores, model: $name, description: .[0].description,
     machine: .[0].machine, plans: $plans,
     layouts: [group_by(.layout)[] | {layout: .[0].layout, prefill: [.[].rows[0].prefill.tokens_per_second] | median,
        prefill_runs: [.[].rows[0].prefill.tokens_per_second], decode: [.[].rows[0].decode.tokens_per_second] | median,
        decode_runs: [.[].rows[0].decode.tokens_per_second], sent: .[0].rows[0].prefill.sent_bytes}]}' \
    "$work/runs.json" >"$result.json"

jq -r --arg layers "$(jq .num_hidden_layers "bench/configs/$name.json")" '
    def fixed(digits): . * pow(10; digits) | round / pow(10; digits) | tostring;
    def kilobytes: . / ($layers | tonumber) / 1e3 | fixed(1);
    def spread: "\(min | fixed(1)) to \(max | fixed(1))";
    (.layouts[] | select(.layout == "-tp 1")) as $one |
    "# \(.model) on two ranks of \(.machine.cpu)\n",
    "\(.date), commit \(.commit), \(.machine.threads) threads in all on \(.cores) cores (\(.machine.cpu_features)), \(.kernel)\n",
    "\(.description)\n",
    "Prompts of one step, 512 rows; decoding of 4 sequences. Medians of runs that took turns. Bytes are those that the first " +
    "rank sent per layer of a prompt, in kB; logits, which are no layer'"'"'s, are in the gathers.\n",
    "| layout | prefill tokens/s | runs | over one rank | decode tokens/s | runs | sums | gathers | exchanges | in all |",
    "|---|---|---|---|---|---|---|---|---|---|",
    (.layouts[] | "| `\(.layout)` | \(.prefill | fixed(1)) | \(.prefill_runs | spread) | \(.prefill / $one.prefill | fixed(2))" +
        " | \(.decode | fixed(1)) | \(.decode_runs | spread) | \(.sent.sums | kilobytes) | \(.sent.gathers | kilobytes)" +
        " | \(.sent.exchanges | kilobytes) | \(.sent.sums + .sent.gathers + .sent.exchanges | kilobytes) |"),
    "\nBy the formulas of `sluice plan`, with even routing, per layer in kB:\n",
    "| layout | attention | shared expert | routes | rows to experts | results | a layer | logits | in all |",
    "|---|---|---|---|---|---|---|---|---|",
    (.plans[] | .bytes as $b | ($b.attention + $b.shared_experts + $b.routes + $b.dispatch + $b.combine) as $layer |
        "| `\(.layout)` | \($b.attention / 1e3 | fixed(1)) | \($b.shared_experts / 1e3 | fixed(1)) | \($b.routes / 1e3 | fixed(1))" +
        " | \($b.dispatch / 1e3 | fixed(1)) | \($b.combine / 1e3 | fixed(1)) | \($layer / 1e3 | fixed(1))" +
        " | \($b.logits | kilobytes) | \($layer / 1e3 + ($b.logits / ($layers | tonumber) / 1e3) | fixed(1)) |")' \
    "$result.json" >"$result.md"
cat "$result.md"
echo "written to $result.md and $result.json"
