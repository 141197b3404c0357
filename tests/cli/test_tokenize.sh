#!/usr/bin/env bash
# `sluice tokenize` from outside. Usage: test_tokenize.sh PROGRAM SOURCE_DIR
set -u
program=$1
model=$2/models/mini-v4
tokenizer=$2/tests/golden/tokenizers/deepseek-v3/tokenizer.json
# shellcheck source=tests/cli/support.sh
. "$2/tests/cli/support.sh"

# expect NAME WANTED COMMAND...: the command succeeds and prints exactly WANTED, final newline included.
expect() {
    local name=$1 wanted=$2
    shift 2
    "$@" >"$work/output" 2>"$work/errors" || fail "$name: exit code $?: $(cat "$work/errors")"
    printf '%s' "$wanted" >"$work/wanted"
    cmp -s "$work/wanted" "$work/output" || fail "$name: wanted <$wanted>, got <$(cat "$work/output")>"
}

# refuse NAME CODE MESSAGE COMMAND...: exit code CODE, one line on stderr that ends with MESSAGE, no output.
refuse() {
    local name=$1 code=$2 message=$3
    shift 3
    refused "$name" "$code" "$@"
    [[ $(cat "$work/errors") == *"$message" ]] || fail "$name: wanted <$message>, got <$(cat "$work/errors")>"
}

run() { "$program" tokenize "$@"; }
run_on() {
    local input=$1
    shift
    printf '%b' "$input" | run "$@"
}

# The ids were recorded with the reference implementation.
expect "words" $'6895 18009 25744 2616\n' run --tokenizer "$tokenizer" 12345678901
expect "standard input" $'6895 22\n' run_on '1234' --tokenizer "$tokenizer"
expect "a final newline is text" $'6895 22 201\n' run_on '1234\n' --tokenizer "$tokenizer"
expect "json" $'{"token_ids": [6895, 22]}\n' run_on '1234' --tokenizer "$tokenizer" --json
expect "nothing" $'\n' run_on '' --model "$model"
expect "nothing as json" $'{"token_ids": []}\n' run_on '' --model "$model" --json
expect "added tokens" $'4084\n' run_on '<｜User｜>' --model "$model" --match-added-tokens
expect "decode" '12345678901' run_on '6895 18009,25744\n2616\n' --tokenizer "$tokenizer" --decode
expect "decode words" '<think>' run --model "$model" --decode 4081
expect "decode json" '1234' run_on '{"token_ids": [6895, 22]}' --tokenizer "$tokenizer" --decode
expect "decode to json" $'{"text": "1234"}\n' run_on '[6895, 22]' --tokenizer "$tokenizer" --decode --json

# Options from a file, and one of the command line that goes before.
printf 'tokenizer: %s\njson: yes\n' "$tokenizer" >"$work/options.yaml"
expect "a file of options" $'{"token_ids": [6895, 22]}\n' run_on '1234' --config "$work/options.yaml"
expect "words before a file" $'6895 22\n' run_on '1234' --no-json --config "$work/options.yaml"

[[ $(run_on '<｜User｜>' --model "$model") == *" "* ]] || fail "control text is plain without --match-added-tokens"

# Any bytes survive the way there and back.
head -c 20000 /dev/urandom >"$work/bytes"
printf 'two lines\nno end\0\377\n\n' >>"$work/bytes"
for flags in "" "--json" "--match-added-tokens"; do
    # shellcheck disable=SC2086
    run --model "$model" $flags <"$work/bytes" >"$work/ids" || fail "encoding bytes $flags"
    run --model "$model" --decode <"$work/ids" >"$work/back" || fail "decoding bytes $flags"
    cmp -s "$work/bytes" "$work/back" || fail "bytes do not come back $flags"
done

refuse "no tokenizer" 2 "give the model's folder with --model or a tokenizer.json with --tokenizer" \
    run_on 'a'
refuse "no id" 1 '"12x" is not a token id; give numbers with blanks or commas between them' \
    run_on '5 12x' --model "$model" --decode
refuse "unknown id" 1 "the token id 4096 at index 1 is not in the tokenizer's vocabulary of 4096" \
    run_on '5 4096' --model "$model" --decode
refuse "no list" 1 'the JSON with token ids has no array "token_ids"' run_on '{"ids": [1]}' --model "$model" --decode
refuse "no integer" 1 'entry 1 of "token_ids" is not a token id' run_on '[1, 2.5]' --model "$model" --decode
printf 'jsn: yes\n' >"$work/wrong.yaml"
refuse "a wrong file of options" 2 "$work/wrong.yaml, line 1: unknown option jsn; did you mean json?" \
    run_on 'a' --config "$work/wrong.yaml"
run --model "$work/none" </dev/null >"$work/output" 2>"$work/errors" && fail "a missing model is accepted"
grep -q "$work/none/tokenizer.json" "$work/errors" || fail "the missing file is not named: $(cat "$work/errors")"

report
