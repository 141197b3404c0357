#!/usr/bin/env bash
# `sluice bench` from outside. Usage: test_bench.sh PROGRAM SOURCE_DIR
set -u
program=$1
model=$2/models/mini-v4
# shellcheck source=tests/cli/support.sh
. "$2/tests/cli/support.sh"

# holds NAME FILTER: the jq filter gives true for the last report.
holds() {
    [ "$(jq -r "$2" <"$work/report" 2>&1)" = true ] || fail "$1: $(head -c 600 "$work/report")"
}

# refuse NAME CODE MESSAGE OPTIONS...: exit code CODE, one line on stderr that contains MESSAGE, no output.
refuse() {
    local name=$1 code=$2 message=$3
    shift 3
    refused "$name" "$code" "$program" bench "$@"
    [[ $(cat "$work/errors") == *"$message"* ]] || fail "$name: wanted <$message>, got <$(cat "$work/errors")>"
}

"$program" bench --model "$model" --prompt-tokens 24,8,8 --context 40 --batch 3,1 --gen-tokens 2 --repeats 2 \
    --chunk-tokens 16 --threads 2 --json --plot "$work/plot.svg" >"$work/report" 2>"$work/errors" ||
    fail "measuring: $(cat "$work/errors")"
holds "rows" '[.rows[] | [.prompt_tokens, .batch]] == [[8,1],[8,3],[24,1],[24,3],[40,1],[40,3]]'
holds "rates are of the median" '[.rows[] | (.decode_tokens_per_second * .decode.seconds / .batch - 1 | fabs) < 1e-9
    and (.prefill_tokens_per_second * .prefill.seconds / .prompt_tokens - 1 | fabs) < 1e-9] | all'
holds "spread" '[.rows[] | .decode, .prefill | .min_seconds <= .seconds and .seconds <= .max_seconds
    and .min_seconds > 0] | all'
holds "floors" '[.rows[] | (.bandwidth_fraction * .decode.seconds / .decode.bandwidth_floor_seconds - 1 | fabs) < 1e-9
    and (.flop_fraction * .prefill.seconds / .prefill.flop_floor_seconds - 1 | fabs) < 1e-9
    and .floor_seconds == ([.decode.bandwidth_floor_seconds, .decode.flop_floor_seconds] | max)] | all'
holds "limits" '(.machine.read_bytes_per_second * ([.rows[].decode.bandwidth_floor_seconds] | add)
    / ([.rows[].bytes_per_step] | add) - 1 | fabs) < 1e-9'
holds "three sequences read more than one" '.rows[0].bytes_per_step < .rows[1].bytes_per_step'
holds "settings" '.chunk_tokens == 16 and .gen_tokens == 2 and .repeats == 2 and .machine.threads == 2'
holds "memory and loading" '[.rows[] | .peak_rss_bytes > 1000000 and .load_seconds > 0] | all'
head -n 1 "$work/plot.svg" | grep -q '^<svg ' || fail "no picture"

"$program" bench --model "$model" --context 8 --batch 1 --gen-tokens 1 --repeats 1 --device guard \
    --numerics ideal >"$work/output" 2>"$work/errors" || fail "guard: $(cat "$work/errors")"
grep -q '^ *8 *1 ' "$work/output" || fail "no row in the table: $(cat "$work/output")"

"$program" bench --roofline --json >"$work/report" || fail "roofline"
holds "limits" '.read_bytes_per_second > 1e8 and .f32_flops_per_second > 1e8 and (.cpu | length) > 0'

refuse "no model" 2 "--model is missing"
refuse "no number" 2 '--batch takes numbers from 1 to 16777216, separated by commas, not "1,x"' --model "$model" --batch 1,x
refuse "zero" 2 '--prompt-tokens takes numbers' --model "$model" --prompt-tokens 0
refuse "empty" 2 '--context takes numbers' --model "$model" --context ''
refuse "too long" 1 "max_position_embeddings" --model "$model" --prompt-tokens 9000000 --batch 1
refuse "no such folder" 1 "/nonexistent" --model /nonexistent

report
