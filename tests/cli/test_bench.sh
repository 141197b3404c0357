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
holds "limits" '.machine.read_bytes_per_second > 0 and ([.rows[] | (.decode.read_bytes_per_second * .decode.bandwidth_floor_seconds / .bytes_per_step - 1
    | fabs) < 1e-9 and .prefill.read_bytes_per_second == 0] | all)'
holds "three sequences read more than one" '.rows[0].bytes_per_step < .rows[1].bytes_per_step'
holds "settings" '.chunk_tokens == 16 and .gen_tokens == 2 and .repeats == 2 and .machine.threads == 2'
holds "memory and loading" '[.rows[] | .peak_rss_bytes > 1000000 and .load_seconds > 0] | all'
holds "weights are mapped" '.mapped_bytes > 1000000 and .large_page_fraction >= 0 and .large_page_fraction <= 1'
head -n 1 "$work/plot.svg" | grep -q '^<svg ' || fail "no picture"
"$program" bench --model "$model" --context 8 --batch 1 --gen-tokens 1 --repeats 1 --weights copied --json \
    >"$work/report" || fail "copied weights"
holds "weights are copied" '.mapped_bytes == 0 and .copied_bytes > 1000000'

"$program" bench --model "$model" --context 8 --batch 1 --gen-tokens 1 --repeats 1 --device guard \
    --numerics ideal >"$work/output" 2>"$work/errors" || fail "guard: $(cat "$work/errors")"
grep -q '^ *8 *1 ' "$work/output" || fail "no row in the table: $(cat "$work/output")"

# Ranks: what the first one sends is counted by collective, and shared rows send less in sums.
for sp in on off; do
    "$program" bench --model "$model" --prompt-tokens 40,200 --batch 3 --gen-tokens 2 --repeats 2 -tp 2 --sp $sp \
        --sp-replicate none --threads 2 --json >"$work/report" 2>"$work/errors" || fail "ranks, sp $sp: $(cat "$work/errors")"
    holds "ranks, sp $sp" '.tensor_parallel == 2 and .machine.threads == 2 and ([.rows[] | .prefill.sent_bytes.sums > 0 and
        .decode.sent_bytes.sums > 0] | all)'
    holds "bytes of prompts grow with them, sp $sp" '(.rows[1].prefill.sent_bytes.sums / .rows[0].prefill.sent_bytes.sums - 5
        | fabs) < 1e-9'
    cp "$work/report" "$work/report.$sp"
done
[ "$(jq -s '.[1].rows[1].prefill.sent_bytes.sums == 2 * .[0].rows[1].prefill.sent_bytes.sums
    and .[1].rows[1].prefill.sent_bytes.exchanges == 0' "$work/report.on" "$work/report.off")" = true ] ||
    fail "sums that stay scattered: $(head -c 600 "$work/report.on")"
refuse "stages" 1 "on one stage only" --model "$model" --prompt-tokens 8 --batch 1 -pp 2

# Requests. Every measurement is of the same work: twice as many requests as run at once, at least four.
"$program" bench --model "$model" --concurrency 3,1 --drafts 2,0,adaptive,2 --request-tokens 8 --gen-tokens 6 \
    --repeats 2 --prefix-tokens 300 --json --plot "$work/requests.svg" >"$work/report" 2>"$work/errors" ||
    fail "requests: $(cat "$work/errors")"
holds "rows of requests" '[.rows[] | [.concurrency, .drafts, .draft_limit]] ==
    [[1,"2",2],[1,"0",0],[1,"adaptive",2],[3,"2",2],[3,"0",0],[3,"adaptive",2]]'
holds "rates of requests" '[.rows[] | .min_tokens_per_second <= .tokens_per_second and
    .tokens_per_second <= .max_tokens_per_second and .min_tokens_per_second > 0] | all'
holds "ratios" '[.rows[] | .over_off > 0 and .over_best_fixed > 0 and (.drafts != "0" or .over_off == 1)
    and ((.is_best_fixed | not) or .over_best_fixed == 1)] | all'
holds "one best" '[.rows | group_by(.concurrency)[] | map(select(.is_best_fixed)) | length == 1
    and .[0].drafts != "adaptive"] | all'
# M-32: planning and waiting are what a round takes whatever it computes.
holds "times of requests" '[.rows[] | .first_token_seconds > 0 and .token_seconds > 0
    and .planning_fraction > 0 and .planning_fraction < 1 and .bubble_fraction >= 0 and .bubble_fraction < 0.5] | all'
holds "tokens" '[.rows[] | .output_tokens == 2 * (if .concurrency == 1 then 3+7+4+8 else 3+7+4+8+6+3 end)] | all'
holds "no drafts" '[.rows[] | select(.drafts == "0") | .draft_tokens == 0 and .draft_fraction == 0
    and .verified_drafts == [] and .mean_accepted_length == 1 and .steps >= 2 * 22 / .concurrency] | all'
holds "drafts" '[.rows[] | select(.drafts == "2") | .draft_tokens > 0 and (.verified_drafts | length == 2)
    and .accepted_drafts[0] <= .verified_drafts[0] and .verified_drafts[1] <= .verified_drafts[0]
    and (.mean_accepted_length - 1 - (.accepted_drafts | add) / .verified_drafts[0] | fabs) < 1e-9] | all'
holds "prefix" '.prefix | .prompt_tokens == 300 and .cached_tokens == 256 and .cold_seconds > 0
    and .hit_seconds > 0 and .speedup > 0'
holds "settings of requests" '.request_tokens == 8 and .gen_tokens == 6 and .repeats == 2 and .temperature == 0'
grep -q 'drafts adaptive: ' "$work/requests.svg" || fail "no picture of requests"

printf 'Once upon a time there was a fox. The fox went to the river and saw a bear.' >"$work/prompts"
"$program" bench --model "$model" --concurrency 2 --request-tokens 5 --gen-tokens 2 --repeats 1 --temperature 1 \
    --prompt-file "$work/prompts" >"$work/output" 2>"$work/errors" || fail "prompt file: $(cat "$work/errors")"
[ "$(grep -c '^ *2 *\([0-3]\|adaptive\)[* ] ' "$work/output")" = 5 ] || fail "wanted 5 rows: $(cat "$work/output")"
grep -q 'of the given text, answers of 1 to 3 at temperature 1' "$work/output" || fail "run: $(cat "$work/output")"

"$program" bench --roofline --json >"$work/report" || fail "roofline"
holds "limits" '.read_bytes_per_second > 1e8 and .f32_flops_per_second > 1e8 and (.cpu | length) > 0'

refuse "no model" 2 "--model is missing"
refuse "no number" 2 '--batch takes numbers from 1 to 16777216, separated by commas, not "1,x"' --model "$model" --batch 1,x
refuse "zero" 2 '--prompt-tokens takes numbers' --model "$model" --prompt-tokens 0
refuse "empty" 2 '--context takes numbers' --model "$model" --context ''
refuse "too long" 1 "max_position_embeddings" --model "$model" --prompt-tokens 9000000 --batch 1
refuse "no requests" 2 "say with --concurrency how many" --model "$model" --drafts 1
refuse "bad drafts" 2 'and "adaptive", separated by commas, not "1,adapt"' --model "$model" --concurrency 1 --drafts 1,adapt
refuse "too many drafts" 2 "--drafts takes numbers from 0 to 16" --model "$model" --concurrency 1 --drafts 17
refuse "too many requests" 2 "--concurrency takes numbers up to 4096" --model "$model" --concurrency 5000
refuse "lengths twice" 2 "the length of --request-tokens" --model "$model" --concurrency 1 --context 64
refuse "short text" 1 "too few for one prompt of 500" --model "$model" --concurrency 1 --request-tokens 500 \
    --prompt-file "$work/prompts"
refuse "no such folder" 1 "/nonexistent" --model /nonexistent

report
