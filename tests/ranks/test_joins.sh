#!/usr/bin/env bash
# Ranks that mpirun or srun started join by themselves, and those that do not belong together are refused with what
# differs (spec parallelism F-7, T-25). Usage: test_joins.sh PROGRAM SOURCE_DIR
set -u
program=$1
model=$2/models/mini-v4
# shellcheck source=tests/cli/support.sh
. "$2/tests/cli/support.sh"
mpirun=(mpirun --oversubscribe --bind-to none --allow-run-as-root --mca mpi_yield_when_idle 1)
short=(--temperature 0 --prompt Once --max-tokens 12)

# equal NAME WANTED GOT
equal() {
    [ "$2" = "$3" ] || fail "$1: wanted <$2>, got <$3>"
}

alone=$("$program" generate --model "$model" "${short[@]}")
equal "mpirun" "$alone" "$("${mpirun[@]}" -n 4 "$program" generate --model "$model" "${short[@]}" -pp 2 -tp 2 2>&1)"
equal "replicas" "$alone" "$("${mpirun[@]}" -n 2 "$program" generate --model "$model" "${short[@]}" -dp 2 --enable-expert-parallel 2>&1)"
# Slurm names the ranks by PMIx, as mpirun does besides its own way.
# shellcheck disable=SC2016
equal "srun" "$alone" "$("${mpirun[@]}" -n 2 env -u OMPI_COMM_WORLD_RANK -u OMPI_COMM_WORLD_SIZE SLURM_NTASKS=2 \
    "$program" generate --model "$model" "${short[@]}" -tp 2 2>&1)"
equal "one process is no job" "$alone" "$("${mpirun[@]}" -n 1 "$program" generate --model "$model" "${short[@]}" -tp 2 2>&1)"

# A pair of ranks: two programs, models and lists of options, the second one's after --.
pair() {
    local own=() other=() list=own
    local -n to=$list
    for word in "$@"; do
        if [ "$word" = -- ]; then
            local -n to=other
        else
            to+=("$word")
        fi
    done
    timeout 60 "${mpirun[@]}" -n 1 "${own[@]}" "${short[@]}" -tp 2 : -n 1 "${other[@]}" "${short[@]}" -tp 2 \
        >"$work/output" 2>"$work/errors"
}

# refuse_pair NAME WORDS ...: no text comes out, and whoever speaks says why in one line.
refuse_pair() {
    local name=$1 words=$2
    shift 2
    pair "$@" && fail "$name: was not refused"
    [ -s "$work/output" ] && fail "$name: printed <$(cat "$work/output")>"
    grep "^sluice" "$work/errors" | grep -qF -- "$words" || fail "$name: no <$words> in <$(cat "$work/errors")>"
}

own=("$program" generate --model "$model")
pair "${own[@]}" -- "${own[@]}" || fail "a pair: $(cat "$work/errors")"
equal "a pair" "$alone" "$(cat "$work/output")"

cp -r "$model" "$work/config"
sed -i 's/"rope_theta": *[0-9]*/"rope_theta": 20000/' "$work/config/config.json"
refuse_pair "another configuration" "rank 1 does not fit rank 0: config.json rope_theta is 20000 there and 10000 here" \
    "${own[@]}" -- "$program" generate --model "$work/config"
cp -r "$model" "$work/weights"
first=$work/weights/model-00001-of-00002.safetensors
# The digest reads small tensors whole; one lies at the end.
printf '\x55' | dd of="$first" bs=1 seek=$(($(stat -c %s "$first") - 100)) conv=notrunc status=none
refuse_pair "other weights" "rank 1 does not fit rank 0: checkpoint is " \
    "${own[@]}" -- "$program" generate --model "$work/weights"
refuse_pair "no model there" "rank 1 of 2 failed: cannot open $work/nowhere/config.json" \
    "${own[@]}" -- "$program" generate --model "$work/nowhere"
objcopy --dump-section .note.gnu.build-id="$work/note" "$program" "$work/program"
printf '\xaa\xbb' | dd of="$work/note" bs=1 seek=16 conv=notrunc status=none
objcopy --update-section .note.gnu.build-id="$work/note" "$program" "$work/program"
refuse_pair "another build" "rank 1 does not fit rank 0: build is aabb" "${own[@]}" -- "$work/program" generate --model "$model"
for secret in one other; do
    head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$work/$secret"
    chmod 600 "$work/$secret"
done
refuse_pair "another secret" "rank 1 does not know the secret of this job" \
    "${own[@]}" --peer-secret-file "$work/one" -- "${own[@]}" --peer-secret-file "$work/other"
refuse_pair "no secret" "rank 1 does not know the secret of this job" \
    "${own[@]}" --peer-secret-file "$work/one" -- "${own[@]}"
refuse_pair "another number of ranks" "are 4, but there are 2 processes" "${own[@]}" -pp 2 -- "${own[@]}" -pp 2

# Who does not come is waited for twenty deadlines long, and no longer.
began=$(date +%s)
"${mpirun[@]}" -n 1 "${own[@]}" "${short[@]}" -tp 2 --deadline-seconds 0.1 : -n 1 sleep 60 >"$work/output" 2>"$work/errors" &&
    fail "a missing rank: was not noticed"
grep -q "a process of this job has not come within 2.0 s of the start" "$work/errors" ||
    fail "a missing rank: $(cat "$work/errors")"
[ $(($(date +%s) - began)) -lt 12 ] || fail "a missing rank: took $(($(date +%s) - began)) s"

# A rank that hangs is named by who waits for it, within the deadline and 5 s more.
"${mpirun[@]}" -n 2 "${own[@]}" --prompt Once --temperature 0 --ignore-eos --max-tokens 4000 --max-model-len 4090 -tp 2 \
    --deadline-seconds 1 >"$work/output" 2>"$work/errors" </dev/null &
launcher=$!
for _ in $(seq 200); do # the first ticks have the start's deadline
    sleep 0.05
    [ "$(stat -c %s "$work/output")" -gt 100 ] && break
done
for process in $(pgrep -P "$launcher" sluice); do
    tr '\0' '\n' <"/proc/$process/environ" | grep -qx 'OMPI_COMM_WORLD_RANK=1' && hanging=$process
done
began=$(date +%s%N)
kill -STOP "$hanging"
wait "$launcher" && fail "a hanging rank: was not noticed"
milliseconds=$((($(date +%s%N) - began) / 1000000))
kill -KILL "$hanging" 2>/dev/null
[ "$milliseconds" -lt 6000 ] || fail "a hanging rank: took $milliseconds ms"
grep "^sluice" "$work/errors" | grep -q "rank 1" || fail "a hanging rank: $(cat "$work/errors")"
report
