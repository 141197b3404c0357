#!/usr/bin/env bash
# Ranks on two hosts: network namespaces with a cable between them, and mpirun's remote agent in place of ssh. The
# same text and numbers as one rank's, a slow cable is named, a lost rank and a cut cable end the job, and what a
# bench of it measures beside what plan predicts. Usage: test_hosts.sh PROGRAM SOURCE_DIR. Ends with 77 where the
# machine allows no namespaces.
set -u
program=$1
model=$2/models/mini-v4
# shellcheck source=tests/cli/support.sh
. "$2/tests/cli/support.sh"
id=$$
network=10.77.0.0/24
declare -A space=([host-a]=sluice-a-$id [host-b]=sluice-b-$id)

clean_up() {
    local host process
    for host in "${!space[@]}"; do
        for process in $(ip netns pids "${space[$host]}" 2>/dev/null); do
            kill -9 "$process"
        done
        ip netns del "${space[$host]}" 2>/dev/null
    done
    rm -rf "$work"
}
trap clean_up EXIT

connect_hosts() {
    ip netns add "${space[host-a]}" && ip netns add "${space[host-b]}" || return 1
    ip link add "sla$id" netns "${space[host-a]}" type veth peer name "slb$id" netns "${space[host-b]}" || return 1
    ip -n "${space[host-a]}" address add 10.77.0.1/24 dev "sla$id"
    ip -n "${space[host-b]}" address add 10.77.0.2/24 dev "slb$id"
    local host
    for host in host-a host-b; do
        ip -n "${space[$host]}" link set lo up
    done
    ip -n "${space[host-a]}" link set "sla$id" up && ip -n "${space[host-b]}" link set "slb$id" up
}
connect_hosts 2>"$work/errors" || {
    echo "no network namespaces here: $(cat "$work/errors")"
    exit 77
}

# on HOST COMMAND...
on() {
    local host=$1
    shift
    # shellcheck disable=SC2016
    ip netns exec "${space[$host]}" unshare --uts sh -c 'hostname "$1"; shift; exec "$@"' on "$host" "$@"
}

# What mpirun calls for other hosts, as it calls ssh: AGENT [OPTIONS] HOST WORDS...
cat >"$work/agent" <<AGENT
#!/usr/bin/env bash
while [[ \$1 == -* ]]; do shift; done
host=\$1
shift
exec ip netns exec "sluice-\${host#host-}-$id" unshare --uts sh -c 'hostname "\$1"; shift; exec sh -c "\$*"' agent "\$host" "\$@"
AGENT
chmod +x "$work/agent"
export OMPI_MCA_plm_rsh_agent=$work/agent
hosts=(--hosts "host-a,host-b" --rank-network "$network" --deadline-seconds 2)

# equal NAME WANTED GOT
equal() {
    [ "$2" = "$3" ] || fail "$1: wanted <$2>, got <$3>"
}

# The same tokens and log-probabilities to the last digit.
answer=(generate --model "$model" --temperature 0 --prompt "Once upon" --max-tokens 40 --json --logprobs 3)
numbers() { python3 -c 'import json, sys; a = json.load(sys.stdin); print(a["text"], a["logprobs"])'; }
alone=$("$program" "${answer[@]}" | numbers)
[ -n "$alone" ] || fail "one rank gave nothing"
for layout in "-pp 2" "-tp 2" "-pp 2 -tp 2" "-dp 2 --enable-expert-parallel" "-dp 2 -pp 2 --enable-expert-parallel"; do
    # shellcheck disable=SC2086
    equal "two hosts, $layout" "$alone" "$(on host-a "$program" "${answer[@]}" $layout "${hosts[@]}" 2>"$work/errors" | numbers)"
    [ -s "$work/errors" ] && fail "two hosts, $layout: $(cat "$work/errors")"
done

# chosen NAME PATTERN OPTIONS...: two ranks on two hosts share rows, give the same, and choose how as PATTERN says.
chosen() {
    local name=$1 pattern=$2
    shift 2
    equal "$name" "$alone" "$(on host-a "$program" "${answer[@]}" -tp 2 --sp on "${hosts[@]}" --log-level info "$@" \
        2>"$work/errors" | numbers)"
    [ "$(grep -c "shared rows: .*$pattern" "$work/errors")" -eq 1 ] || fail "$name: $(cat "$work/errors")"
}

# By a profile whose network decides (S-13, S-15): of the model's 8 layers two have no compressor and three are indexed.
# Early sends 384 bytes less of a row in the others for 163840 operations, and 1920 less in indexed ones for 360448.
echo '{"operations_per_second": 1e12, "compute_share": 1, "link_bytes_per_second": 1, "network_bytes_per_second": 4e9}' \
    >"$work/network.json"
chosen "a profile of the network" "late in 5 layers and early in 3.*; by the profile" --profile "$work/network.json"
chosen "as was asked for" "late in 8 layers and early in 0 as was asked for, .*; by the profile: a link of 4 GB/s, 1 T" --profile "$work/network.json" --sp-gather late
echo '{"operations_per_second": -1}' >"$work/wrong.json"
refused "a profile that is none" 1 on host-a "$program" "${answer[@]}" -tp 2 --sp on "${hosts[@]}" --profile "$work/wrong.json"

# What names hosts wrongly is refused.
refused "threads on hosts" 2 on host-a "$program" generate --model "$model" --prompt x -pp 2 "${hosts[@]}" \
    --distributed-executor-backend threads
refused "one rank on hosts" 2 on host-a "$program" generate --model "$model" --prompt x "${hosts[@]}"
refused "another network" 2 on host-a "$program" generate --model "$model" --prompt x -pp 2 --hosts host-a,host-b \
    --rank-network 192.168.3.0/24
grep -q "no address in the network 192.168.3.0/24" "$work/errors" || fail "another network: $(cat "$work/errors")"

# left_on HOST: processes there.
left_on() { ip netns pids "${space[$1]}" | tr '\n' ' '; }

# nothing_left NAME SECONDS
nothing_left() {
    local name=$1 turns=$(($2 * 20))
    while [ -n "$(left_on host-a)$(left_on host-b)" ] && [ "$turns" -gt 0 ]; do
        sleep 0.05
        turns=$((turns - 1))
    done
    [ -z "$(left_on host-a)$(left_on host-b)" ] || fail "$name: processes are left: $(
        # shellcheck disable=SC2046
        ps -o pid=,stat=,args= $(left_on host-a) $(left_on host-b) | cut -c1-80)"
}
nothing_left "after answers" 2

# lose NAME LIMIT PATTERN COMMAND...: while an answer is written COMMAND makes host-b's rank go; the job ends within
# LIMIT milliseconds, and its one line matches PATTERN.
lose() {
    local name=$1 limit=$2 pattern=$3
    shift 3
    on host-a "$program" generate --model "$model" --prompt Once --ignore-eos --max-tokens 4000 --max-model-len 4090 \
        --temperature 0 -pp 2 "${hosts[@]}" >"$work/output" 2>"$work/errors" </dev/null &
    local launcher=$!
    for _ in $(seq 200); do
        [ "$(stat -c %s "$work/output")" -gt 100 ] && break
        sleep 0.05
    done
    sleep 0.5 # until ranks have said that they are no longer starting
    local began
    began=$(date +%s%N)
    "$@"
    wait "$launcher"
    equal "$name: exit code" 1 $?
    local milliseconds=$((($(date +%s%N) - began) / 1000000))
    [ "$milliseconds" -lt "$limit" ] || fail "$name: took $milliseconds ms"
    [ "$(wc -l <"$work/errors")" -eq 1 ] || fail "$name: not one line: <$(cat "$work/errors")>"
    grep -qE "$pattern" "$work/errors" || fail "$name: $(cat "$work/errors")"
}
kill_there() {
    local process
    for process in $(ip netns pids "${space[host-b]}"); do
        [ "$(cat "/proc/$process/comm")" = sluice ] && kill -9 "$process"
    done
}
lose "a rank there dies" 4000 "rank 1 of 2 on host host-b \(stage 1 of 2, tick [0-9]+, .*\) has died" kill_there
nothing_left "a rank there dies" 2
lose "the cable is cut" 7000 "rank 1 of 2 on host host-b .* has not been heard of" \
    ip -n "${space[host-b]}" link set "slb$id" down
nothing_left "the cable is cut" 20 # the other side learns it by itself
ip -n "${space[host-b]}" link set "slb$id" up

# A cable of 20 Mbit/s moves 2.5 MB/s.
for side in a b; do
    ip netns exec "${space[host-$side]}" tc qdisc add dev "sl$side$id" root tbf rate 20mbit burst 32kbit latency 400ms
done
equal "a slow cable" "$alone" "$(on host-a "$program" "${answer[@]}" -pp 2 "${hosts[@]}" 2>"$work/errors" | numbers)"
grep -qE "the link between hosts host-a \(rank 0\) and host-b \(rank 1\) is slow: [12]\.[0-9]+ MB/s" "$work/errors" ||
    fail "a slow cable: $(cat "$work/errors")"
# It costs more than computing what others compute too; how fast that is was measured.
chosen "gathers over a slow cable" "late in 2 layers and early in 6, shared experts are whole in 1 of 1 stages; measured: a link of 0.00[12].* reading at .* T operations"

# Measured and predicted, side by side: a host of the plan is what this machine was measured to be.
"$program" bench --roofline --json >"$work/machine.json" || fail "roofline"
measure=(bench --model "$model" --concurrency 1 --drafts 0 --request-tokens 256 --repeats 3 --gen-tokens 32 --json)
on host-a "$program" "${measure[@]}" -pp 2 "${hosts[@]}" >"$work/bench.json" 2>"$work/errors" ||
    fail "bench on two hosts: $(cat "$work/errors")"
python3 - "$work" "$program" "$model" <<'PYTHON' || fail "plan beside bench"
import json, subprocess, sys
work, program, model = sys.argv[1:]
machine = json.load(open(f"{work}/machine.json"))
machine = machine.get("machine", machine)
row = json.load(open(f"{work}/bench.json"))["rows"][0]
profile = {"device": "one host here", "memory_bytes": 4e9, "read_bytes_per_second": machine["read_bytes_per_second"],
           "operations_per_second": machine["bf16_flops_per_second"], "network_bytes_per_second": 2.5e6,
           "network_latency_seconds": 5e-5}
json.dump(profile, open(f"{work}/profile.json", "w"))
plan = json.loads(subprocess.check_output([program, "plan", "--model", model, "--hosts", "2x4GB", "--profile",
    f"{work}/profile.json", "-pp", "2", "--max-num-seqs", "1", "--max-num-batched-tokens", "256", "--json"]))
layout = plan["layouts"][0]
for name, measured, planned in (("decode", 1 / row["token_seconds"], layout["tokens_per_second"]),
                                ("prefill", 256 / row["first_token_seconds"], layout["prefill_tokens_per_second"])):
    print(f"{name}: {measured:.0f} tokens/s measured, {planned:.0f} predicted, over a link of 20 Mbit/s")
    assert measured > 0 and planned > 0
PYTHON
nothing_left "the end" 2
report
