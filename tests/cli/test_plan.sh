#!/usr/bin/env bash
# `sluice plan` from outside. Usage: test_plan.sh PROGRAM SOURCE_DIR
set -u
program=$1
flash=$2/tests/golden/configs/flash.json
pro=$2/tests/golden/configs/pro.json
# shellcheck source=tests/cli/support.sh
. "$2/tests/cli/support.sh"

run() { "$program" plan "$@"; }

# expect NAME TEXT ARGUMENTS...: the plan is made, nothing is on stderr, and the report has the text.
expect() {
    local name=$1 wanted=$2
    shift 2
    run "$@" >"$work/output" 2>"$work/errors" || fail "$name: exit code $?: $(cat "$work/errors")"
    [ -s "$work/errors" ] && fail "$name: stderr has <$(cat "$work/errors")>"
    grep -qF -- "$wanted" "$work/output" || fail "$name: no <$wanted> in <$(cat "$work/output")>"
}

# refuse NAME CODE MESSAGE ARGUMENTS...: exit code CODE, one line on stderr with MESSAGE, no output.
refuse() {
    local name=$1 code=$2 message=$3
    shift 3
    refused "$name" "$code" run "$@"
    grep -qF -- "$message" "$work/errors" || fail "$name: no <$message> in <$(cat "$work/errors")>"
}

expect "search" "10 of 10 layouts fit" --config "$flash" --gpus 8x141GB
expect "search names the best" "layout    dp" --config "$flash" --gpus 8x141GB
expect "the best has a reason" "1: the fastest: of a token" --config "$flash" --gpus 8x141GB
expect "the next has one" "more time per token: " --config "$flash" --gpus 8x141GB
expect "asked layout" "layout    dp 1, pp 2, tp 8, ep, sp on 16 ranks" \
    --config "$pro" --gpus 8xh200 --hosts 2 -tp 8 -pp 2
expect "spelt out" "layout    dp 2, pp 1, tp 4 on 8 ranks" --config "$flash" --gpus 8xh200 \
    --tensor-parallel-size 4 --data-parallel-size=2 --no-enable-expert-parallel --sp off
expect "copies" "tp 8, ep, sp, 16 copies of experts on 8 ranks" --config "$pro" --gpus 8xh200 -tp 8 --enable-eplb \
    --eplb-config '{"num_redundant_experts":16}'
expect "kinds of weights of a small model" "weights of stage 0: attention 1.0 MB, " \
    --model "$2/models/mini-v4" --gpus 2x141GB -tp 2 --ep
grep -nE "[;,:] *$" "$work/output" && fail "a line of the plan ends with a separator"
expect "hosts" "(between hosts)" --config "$flash" --hosts 2x128GB --link 25Gbit -pp 2
late="late in 2 layers from 0 on: 3072 bytes a row (early 8192), late in 21 layers from 2 on: 15360 bytes a row (early 10240)"
expect "gathers" "  attention gathers $late, late in 20 layers from 3 on" --config "$flash" --gpus 8xh200 -tp 8
expect "early gathers" "early in 20 layers from 3 on: 8192 bytes a row (late 7168)" --config "$flash" --gpus 8xh200 -tp 8 \
    --sp-gather early
expect "partition" "0-19" --config "$flash" --hosts 2x128GB -pp 2 --pp-layer-partition 20,23
expect "drafts" "embedding for drafts 1.06 GB" --config "$flash" --hosts 2x128GB -pp 2 --pp-layer-partition 20,23 \
    --speculative-config '{"method":"mtp","num_speculative_tokens":1}'
expect "a checkpoint" "8 layers" --model "$2/models/mini-v4" --hosts 1x8GB
expect "scale" "512       2048" --config "$pro" --gpus 8xh200 --scale 16,32,64,128,256,512 --max-num-seqs 64 \
    --max-num-batched-tokens 1024

# Drafting off is no byte anywhere, on it is two buffers of the running sequences' rows.
field='import json, sys; print([s["draft_bytes"] for s in json.load(sys.stdin)["layouts"][0]["stages"]])'
drafts() { run --config "$pro" --gpus 8xh200 --hosts 4 -tp 8 -pp 4 --max-num-batched-tokens 8192 --max-num-seqs 256 \
    --no-enable-prefix-caching --json "$@" | python3 -c "$field"; }
[ "$(drafts)" = "[0, 0, 0, 0]" ] || fail "drafting off: $(drafts)"
[ "$(drafts --speculative-config '{"method":"mtp","num_speculative_tokens":3}')" = "[0, 0, 0, $((2 * 256 * 57344))]" ] ||
    fail "drafting on"

# The keys that programs read.
run --config "$flash" --gpus 8xh200 --json >"$work/plan.json" || fail "json: exit code $?"
python3 - "$work/plan.json" <<'PYTHON' || fail "json: keys"
import json, sys
plan = json.load(open(sys.argv[1]))
assert sorted(plan) == ["layouts", "machine", "request", "scale"], sorted(plan)
assert plan["scale"] is None and len(plan["layouts"]) == 3
best = plan["layouts"][0]
for key in ("data_parallel pipeline_parallel tensor_parallel expert_parallel sequence_parallel fits kv_tokens "
            "kv_tokens_per_replica full_sessions stage_imbalance tokens_per_second prefill_tokens_per_second "
            "running_sequences bottleneck_stage decode_bytes prefill_bytes stages").split():
    assert key in best, key
assert sum(stage["layers"] for stage in best["stages"]) == 43
for stage in best["stages"]:
    assert sum(stage["weight_bytes"].values()) == stage["weights_total_bytes"]
    parts = ("weights_total_bytes", "state_fixed_bytes", "step_bytes", "boundary_bytes", "draft_bytes")
    assert sum(stage[part] for part in parts) == stage["fixed_bytes"]
PYTHON

gathers='import json, sys; print([[k["layers"], k["choice"], k["early_row_bytes"], k["late_row_bytes"], k["chosen_row_bytes"],
    k["first_layer"]] for k in json.load(sys.stdin)["layouts"][0]["attention_gathers"]])'
gathers() { run --config "$flash" --gpus 8xh200 --json -tp 8 "$@" | python3 -c "$gathers"; }
[ "$(gathers)" = "[[2, 'late', 8192, 3072, 0, 0], [21, 'late', 8192, 13312, 2048, 2], [20, 'late', 8192, 7168, 0, 3]]" ] ||
    fail "gathers in json: $(gathers)"
[ "$(gathers --sp off)" = "[]" ] || fail "gathers without shared rows: $(gathers --sp off)"

refuse "no model" 2 "--config or a checkpoint by --model" --gpus 8xh200
refuse "both" 2 "either a config.json" --config "$flash" --model "$2/models/mini-v4" --gpus 8xh200
refuse "no machine" 2 "--gpus, such as 8x141GB" --config "$flash"
refuse "ranks" 2 "there are 8 devices" --config "$flash" --gpus 8xh200 -tp 4
refuse "kinds of devices" 1 "stages on devices of different kinds" --config "$flash" --gpus 4xh200,4x80GB
refuse "kinds of hosts" 1 "stages on devices of different kinds" --config "$flash" --hosts 1x64GB,1x128GB
refuse "sizes of stages" 1 "stages of different tensor parallelism (4,2)" --config "$flash" --gpus 8xh200 -pp 2 -tp 4 \
    --pp-tensor-parallel-sizes 4,2
refuse "heads" 1 "cannot deal out 64 attention heads" --config "$flash" --gpus 3xh200 -tp 3
refuse "groups" 1 "o_groups" --config "$flash" --gpus 8xh200 --hosts 2 -tp 16
refuse "stages" 1 "at most 44" --config "$flash" --gpus 45xh200 -pp 45
refuse "partition" 2 "44 layers in all, expected 43" --config "$flash" --hosts 2x128GB -pp 2 --pp-layer-partition 20,24
refuse "context" 1 "context parallelism of 2" --config "$flash" --gpus 2xh200 -cp 2
refuse "memory" 1 "a rank of stage 0 needs" --config "$pro" --gpus 8xh100 -tp 8
refuse "memory in a search" 1 "may be used: take more ranks" --config "$pro" --gpus 4xh200
refuse "pages" 2 "--block-size) is 100" --config "$flash" --gpus 8xh200 -pp 8 --block-size 100
refuse "pages in a search" 2 "--block-size) is 100" --config "$flash" --gpus 8xh200 --block-size 100
refuse "buffers" 2 "--pp-buffers must be at least 3" --config "$flash" --gpus 8xh200 -pp 8 --pp-buffers 2
refuse "drafter" 1 "DSpark" --config "$2/tests/golden/configs/flash-0731.json" --gpus 8xh200 \
    --speculative-config '{"method":"mtp","num_speculative_tokens":1}'
refuse "context length" 2 "--max-model-len is 2000000" --config "$flash" --gpus 8xh200 -pp 8 --max-model-len 2000000
refuse "sequences" 2 "lower --max-num-seqs" --config "$flash" --gpus 8xh200 -pp 8 --max-num-seqs 600
refuse "part of a layout" 2 "name it by -tp, -pp or -dp" --config "$flash" --gpus 8xh200 --sp off
refuse "layout and scale" 2 "--scale searches" --config "$flash" --gpus 8xh200 --scale 8,16 -tp 8
refuse "no file" 1 "nowhere.json" --config "$work/nowhere.json" --gpus 8xh200

report
