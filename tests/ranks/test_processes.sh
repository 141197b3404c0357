#!/usr/bin/env bash
# Ranks as processes from outside: same text, exit codes, lost ranks (T-22, T-24), no process left behind, idle
# ranks. Usage: test_processes.sh PROGRAM SOURCE_DIR SLOW_LOAD_LIBRARY
set -u
program=$1
model=$2/models/mini-v4
slow_load=$3
# shellcheck source=tests/cli/support.sh
. "$2/tests/cli/support.sh"
ranks=(-pp 2 -tp 2 --distributed-executor-backend mpi --deadline-seconds 2)
story=(--chat --no-thinking --temperature 0 --prompt "Tell me a story about a fox.")

# equal NAME WANTED GOT
equal() {
    [ "$2" = "$3" ] || fail "$1: wanted <$2>, got <$3>"
}

# start ARGUMENTS...: runs generate with the ranks behind our back; sets launcher, mpirun and pids by rank.
start() {
    "$program" generate --model "$model" "${ranks[@]}" "$@" >"$work/output" 2>"$work/errors" </dev/null &
    launcher=$!
    find_ranks
}

find_ranks() {
    local process rank
    pids=()
    for _ in $(seq 200); do
        sleep 0.05
        mpirun=$(pgrep -P "$launcher" mpirun) || continue
        pids=()
        for process in $(pgrep -P "$mpirun"); do
            rank=$(tr '\0' '\n' <"/proc/$process/environ" 2>/dev/null | sed -n 's/^OMPI_COMM_WORLD_RANK=//p')
            [ -n "$rank" ] && pids[rank]=$process
        done
        [ "${#pids[@]}" -eq 4 ] && return
    done
    fail "the ranks did not start: $(cat "$work/errors")"
}

# is_running PROCESS: it exists and is no zombie.
is_running() {
    [ -e "/proc/$1/stat" ] && ! grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2>/dev/null
}

# nothing_left NAME: all that was started is gone within a second.
nothing_left() {
    local process
    for _ in $(seq 20); do
        local left=()
        for process in "$launcher" "$mpirun" "${pids[@]}"; do
            is_running "$process" && left+=("$process")
        done
        [ "${#left[@]}" -eq 0 ] && return
        sleep 0.05
    done
    fail "$1: processes are left: ${left[*]}"
    kill -9 "${left[@]}"
}

# The same text, for any number of ranks, and what goes in and out belongs to rank 0.
alone=$("$program" generate --model "$model" "${story[@]}")
equal "4 ranks" "$alone" "$("$program" generate --model "$model" "${story[@]}" "${ranks[@]}" 2>&1)"
printf 'Tell me a story about a fox.' >"$work/prompt"
equal "prompt from standard input, mp as vLLM spells it" "$alone" "$("$program" generate --model "$model" --chat \
    --no-thinking --temperature 0 --prompt-file - -tp 2 --distributed-executor-backend mp <"$work/prompt" 2>&1)"
chat() { printf 'Tell me a story about a fox.\n' | "$program" chat --model "$model" --no-thinking -t 0 "$@" 2>/dev/null; }
equal "chat" "$(chat)" "$(chat "${ranks[@]}")"
equal "experts that move" "$alone" "$("$program" generate --model "$model" "${story[@]}" "${ranks[@]}" --enable-eplb \
    --eplb-config '{"num_redundant_experts":2,"step_interval":4,"window_size":10}' 2>/dev/null)"
# The first rank's choice is everybody's (S-15): indexed layers gather early, the others late.
echo '{"operations_per_second": 1e12, "compute_share": 1, "read_bytes_per_second": 1e10, "link_bytes_per_second": 4e9}' \
    >"$work/profile.json"
equal "chosen gathers" "$alone" "$("$program" generate --model "$model" "${story[@]}" "${ranks[@]}" --sp on \
    --profile "$work/profile.json" --log-level info 2>"$work/errors")"
grep -q "shared rows: attention gathers late in 5 layers and early in 3" "$work/errors" ||
    fail "chosen gathers: $(cat "$work/errors")"
equal "one rank needs no job" "$alone" "$("$program" generate --model "$model" "${story[@]}" \
    --distributed-executor-backend mpi 2>&1)"

# Failures of a rank are told once, with the exit code that one process has.
refused "no prompt" 2 "$program" generate --model "$model" "${ranks[@]}"
refused "no model" 1 "$program" generate --model nowhere "${ranks[@]}" --prompt x
grep -q "nowhere/config.json" "$work/errors" || fail "no model: $(cat "$work/errors")"
refused "hosts without a network" 2 "$program" generate --model "$model" "${ranks[@]}" --prompt x --hosts a,b
grep -q -- "--rank-network" "$work/errors" || fail "hosts without a network: $(cat "$work/errors")"
printf 'short' >"$work/secret"
chmod 600 "$work/secret"
refused "how what does not move moves" 2 "$program" generate --model "$model" --prompt x --eplb-config '{}'
refused "unknown key" 2 "$program" generate --model "$model" --prompt x --enable-eplb --eplb-config '{"windows":1}'
grep -q '"windows" is unknown' "$work/errors" || fail "unknown key: $(cat "$work/errors")"
refused "replicas that share nothing" 2 "$program" generate --model "$model" --prompt x -dp 2
grep -q "add --enable-expert-parallel" "$work/errors" || fail "replicas that share nothing: $(cat "$work/errors")"
refused "short secret" 2 "$program" generate --model "$model" "${ranks[@]}" --prompt x --peer-secret-file "$work/secret"
head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$work/secret"
equal "with a secret" "$alone" "$("$program" generate --model "$model" "${story[@]}" "${ranks[@]}" \
    --peer-secret-file "$work/secret" 2>&1)"
chmod 644 "$work/secret"
refused "open secret" 2 "$program" generate --model "$model" "${ranks[@]}" --prompt x --peer-secret-file "$work/secret"

# Any rank may be lost, while the prompt is read or the answer written: all end at once, and one line says why.
printf '{"token_ids": [%s]}' "$(seq -s, 8 4087)" >"$work/ids.json"
prefill=(--token-ids-file "$work/ids.json" --max-tokens 4 --max-model-len 4090 --chunk-tokens 1)
decode=(--prompt Once --ignore-eos --max-tokens 4000 --max-model-len 4090 --temperature 0)

# place RANK: in the layout, in the words of the report.
place() { echo "stage $(($1 / 2)) of 2"; }

# lose NAME RANK SIGNAL SECONDS FATE ARGUMENTS...: on a machine that is slow today the ranks may still be starting.
lose() {
    local name=$1 rank=$2 signal=$3 limit=$4 fate=$5 pause
    shift 5
    for pause in 0.8 2 5; do
        start "$@"
        sleep "$pause"
        is_running "${pids[rank]}" || fail "$name: was over too early"
        local began code=0
        began=$(date +%s%N)
        kill "-$signal" "${pids[rank]}"
        wait "$launcher" || code=$?
        local milliseconds=$((($(date +%s%N) - began) / 1000000))
        nothing_left "$name"
        grep -qE '\((starting|no engine open)\)' "$work/errors" || break
    done
    equal "$name: exit code" 1 "$code"
    [ "$milliseconds" -lt "$limit" ] || fail "$name: took $milliseconds ms"
    # Of its own accord Open MPI says that what a dead rank was sending cannot be read any more.
    sed -i '/^\[.*\] Read -1, expected [0-9]*, errno = 3$/d' "$work/errors"
    [ "$(wc -l <"$work/errors")" -eq 1 ] || fail "$name: not one line: <$(cat "$work/errors")>"
    grep -qE "^sluice generate: rank $rank of 4 on host $(hostname) \($(place "$rank"), tick [0-9]+, .*\) $fate" \
        "$work/errors" || fail "$name: $(cat "$work/errors")"
}

# B61: a rank that dies while it loads, which others wait for, is found within 15 s, long before any deadline.
lose_loading() {
    local rank=$1 call=$2 code=0 began
    rm -f "$work/loading"
    SLOW_LOAD_RANK=$rank SLOW_LOAD_CALL=$call SLOW_LOAD_MARK=$work/loading LD_PRELOAD=$slow_load start "${decode[@]}" \
        --deadline-seconds 30
    for _ in $(seq 400); do
        [ -e "$work/loading" ] && break
        sleep 0.05
    done
    [ -e "$work/loading" ] || fail "rank $rank does not load: $(cat "$work/errors")"
    began=$(date +%s%N)
    kill -KILL "${pids[rank]}"
    wait "$launcher" || code=$?
    local milliseconds=$((($(date +%s%N) - began) / 1000000))
    nothing_left "rank $rank dies while it loads"
    equal "rank $rank dies while it loads: exit code" 1 "$code"
    [ "$milliseconds" -lt 15000 ] || fail "rank $rank dies while it loads: took $milliseconds ms"
    grep -qE "^sluice generate: rank $rank of 4 on host $(hostname) \(.*\) has died" "$work/errors" ||
        fail "rank $rank dies while it loads: $(cat "$work/errors")"
}
for call in 1 2; do
    lose_loading 0 $call
    lose_loading 3 $call
done
drafts=(--speculative-config '{"method":"mtp","num_speculative_tokens":2}' --no-mtp-adaptive)
for rank in 0 1 3; do
    lose "rank $rank dies while it drafts" $rank KILL 3000 "has died" "${decode[@]}" "${drafts[@]}"
    lose "rank $rank dies while it decodes" $rank KILL 3000 "has died" "${decode[@]}"
    [ -s "$work/output" ] || fail "rank $rank: what was written is gone"
    lose "rank $rank dies while it reads" $rank KILL 3000 "has died" "${prefill[@]}"
    [ -s "$work/output" ] && fail "rank $rank: had read already: $(cat "$work/output")"
done
# Within the deadline of 2 s and 5 s more.
lose "rank 2 hangs" 2 STOP 7000 "has not been heard of" "${decode[@]}"
lose "rank 1 is told to end" 1 TERM 3000 "was told to end, with code 143" "${decode[@]}"

# The same of replicas that share experts: one request runs on the first one, and the other one (ranks 2 and 3) is idle.
tensor_ranks=("${ranks[@]}")
ranks=(-dp 2 -pp 2 --enable-expert-parallel --distributed-executor-backend mpi --deadline-seconds 2)
place() { echo "replica $(($1 / 2)) of 2, stage $(($1 % 2)) of 2"; }
equal "replicas" "$alone" "$("$program" generate --model "$model" "${story[@]}" "${ranks[@]}" "${drafts[@]}" 2>&1)"
lose "rank 1 of a busy replica dies while it drafts" 1 KILL 3000 "has died" "${decode[@]}" "${drafts[@]}"
lose "rank 2, first of an idle replica, dies" 2 KILL 3000 "has died" "${decode[@]}"
lose "rank 3, last of an idle replica, dies while the other reads" 3 KILL 3000 "has died" "${prefill[@]}"
lose "rank 3 hangs" 3 STOP 7000 "has not been heard of" "${decode[@]}"
ranks=("${tensor_ranks[@]}")

# Whoever ends the launcher ends all, and its exit code says how.
start "${decode[@]}"
sleep 0.5
kill -9 "$launcher"
wait "$launcher" 2>/dev/null
nothing_left "launcher killed"
start "${decode[@]}"
sleep 0.5
kill -TERM "$launcher"
wait "$launcher"
equal "launcher told to end" 143 $?
nothing_left "launcher told to end"
start "${decode[@]}"
sleep 0.5
kill -9 "$mpirun"
wait "$launcher"
equal "mpirun killed" 1 $?
nothing_left "mpirun killed"

# Four idle ranks use less than a fifth of a core together.
ticks() { awk '{sum += $14 + $15} END {print sum}' "${files[@]/%//stat}"; }
mkfifo "$work/typed"
"$program" chat --model "$model" "${ranks[@]}" >"$work/output" 2>"$work/errors" <"$work/typed" &
launcher=$!
exec 3>"$work/typed"
find_ranks
files=("${pids[@]/#//proc/}")
sleep 2
before=$(ticks)
sleep 2
used=$(($(ticks) - before))
[ "$used" -lt $((2 * $(getconf CLK_TCK) / 5)) ] || fail "idle ranks used $used ticks in 2 s"
echo "four idle ranks used $used ticks of $(getconf CLK_TCK) per second in 2 s"
exec 3>&-
wait "$launcher"
equal "end of input" 0 $?
nothing_left "chat"
report
