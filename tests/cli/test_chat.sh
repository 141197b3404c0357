#!/usr/bin/env bash
# `sluice chat` from outside, through pipes. Usage: test_chat.sh PROGRAM SOURCE_DIR
set -u
program=$1
source_dir=$2
model=$source_dir/models/mini-v4
prompts=$source_dir/tests/golden/mini-v4/prompts.json
# shellcheck source=tests/cli/support.sh
. "$2/tests/cli/support.sh"

fox='Tell me a story about a fox.'
sum='Rosa has 41 figs and buys 17 more. How many figs does Rosa have now?'
sum_answer=$'<think>She starts with 41. So 41 + 17 = 58.</think>\nRosa has 58 figs.\n#### 58'
story=$(jq -r '.[0].greedy_text' "$prompts")
story=${story%<｜end▁of▁sentence｜>}

# equal NAME WANTED GOT
equal() {
    [ "$2" = "$3" ] || fail "$1: wanted <$2>, got <$3>"
}

# said NAME TEXT: stderr of the last chat holds TEXT.
said() {
    [[ $(cat "$work/errors") == *"$2"* ]] || fail "$1: wanted <$2>, got <$(cat "$work/errors")>"
}

# chat LINES OPTIONS...: answers of a greedy chat; stderr in $work/errors.
chat() {
    local lines=$1
    shift
    printf '%s' "$lines" | "$program" chat --model "$model" --temperature 0 --numerics ideal "$@" 2>"$work/errors" ||
        fail "<$lines>: $(cat "$work/errors")"
}

# Answers are those that were recorded; thinking is on unless it is turned off, at the start or within.
equal "thinking" "$sum_answer" "$(chat "$sum" --system 'You are a kind teacher.')"
equal "no thinking" "$story" "$(chat "$fox"$'\n' --no-thinking)"
equal "commands for thinking" "$story"$'\n'"$sum_answer" \
    "$(chat $'/nothink\n'"$fox"$'\n/clear\n/system You are a kind teacher.\n/think\n'"$sum"$'\n')"
equal "a line that goes on" "$(chat $'Tell me a story\\\nabout a fox.\n' --no-thinking)" \
    "$("$program" generate --model "$model" --temperature 0 --numerics ideal --chat --no-thinking \
        --prompt $'Tell me a story\nabout a fox.')"
# How many drafts are made depends on the clock, whether they may be made does not.
equal "drafts change no text" "$story" "$(chat "$fox"$'\n/stats\n' --no-thinking --no-speculative)"
said "drafts turned off" "drafts    off"
chat "$fox" --no-thinking --max-tokens 5 >/dev/null
said "the answer's length" "cut at the length limit: 12 prompt tokens (0 cached), 5 new"

# The second turn starts from what the first one left in the prefix cache.
long=$(printf 'The fox and the owl are friends and live in the old forest. %.0s' {1..20})
chat "$fox"$'\nTell me more.\n/stats\n' --no-thinking --system "$long" >"$work/turns"
said "the first turn has nothing cached" "(0 cached)"
cached=$(sed -n 's/.*prompt tokens (\([0-9]*\) cached).*/\1/p' "$work/errors" | sed -n 2p)
[ "${cached:-0}" -ge 128 ] || fail "the second turn has ${cached:-no} cached tokens: $(cat "$work/errors")"
said "stats" "answers   2,"
said "stats" "weights, mapped"
said "drafts without being asked" " verified, "
equal "cached turns are the same text" "$(cat "$work/turns")" "$(
    chat "$fox"$'\nTell me more.\n' --no-thinking --system "$long" --chunk-tokens 7 --no-speculative)"

# A saved conversation goes on where it was, here and in generate.
next='What is the capital of Peru?'
continued=$(chat "$fox"$'\n/save '"$work/saved file.json"$'\n'"$next"$'\n' --no-thinking | tail -n +"$((1 + $(wc -l <<<"$story")))")
equal "roles" "user assistant" "$(jq -r '[.messages[].role] | join(" ")' "$work/saved file.json")"
equal "load" "$continued" "$(chat "/load $work/saved file.json"$'\n'"$next"$'\n' --no-thinking)"
said "load" "2 messages"
jq --arg next "$next" '.messages += [{role: "user", content: $next}]' "$work/saved file.json" >"$work/next.json"
equal "generate goes on" "$continued" "$("$program" generate --model "$model" --temperature 0 --numerics ideal \
    --no-thinking --messages "$work/next.json")"

# What a user types never ends a turn: the text is sent as it is.
equal "slashes" '/quit is text' "$(chat $'//quit is text\n/save '"$work/slash.json"$'\n' --no-thinking >/dev/null;
    jq -r '.messages[0].content' "$work/slash.json")"
equal "quit" "" "$(chat $'/quit\n'"$fox"$'\n')"
equal "end" "" "$(chat '')"
equal "empty lines" "" "$(chat $'\n  \n')"
# A model that ends at once says nothing, and the message does not stay.
equal "nothing said" "system" "$(chat "/system Be kind."$'\n'"$fox"$'\n/save '"$work/silent.json" --no-thinking \
    --logit-bias 1=100 >/dev/null; jq -r '.messages[].role' "$work/silent.json")"
said "nothing said" "taken back"
chat $'/help\n/system\n/system Be kind.\n' >/dev/null
said "help" "/nothink"
said "no system message" "There is no system message."
said "system message" "System message: Be kind."

# refuse NAME CODE MESSAGE LINES OPTIONS...: ends with one line on stderr that holds MESSAGE, and says nothing.
refuse() {
    local name=$1 code=$2 message=$3
    printf '%s' "$4" >"$work/lines"
    shift 4
    refused "$name" "$code" "$program" chat --model "$model" "$@" <"$work/lines"
    said "$name" "$message"
}
refuse "unknown command" 2 "did you mean /stats?" $'/stat\n'"$fox"$'\n'
refuse "no such file" 1 "$work/none.json" "/load $work/none.json"$'\n'"$fox"
refuse "no name" 2 "name a file" "/save"
refuse "nothing to save" 1 "nothing to save" "/save $work/x"
refuse "too long" 1 "/clear starts anew, --max-model-len makes room" "$long" --max-model-len 64
refuse "no word" 2 "it takes options only" "" word
refuse "no tokens" 2 "--max-tokens 0" "$fox" --max-tokens 0
refused "no model" 2 "$program" chat </dev/null
said "no model" "--model"
[ -e "$work/x" ] && fail "a file of nothing was written"

# Near the end of the context the user is told once per answer.
chat "$fox" --no-thinking --max-model-len 64 >/dev/null
said "full context" "--max-model-len makes room for more."

report
