# What the scripts of this folder share; to be sourced. Makes the folder $work, which goes when the script ends.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

fail() {
    echo "FAILED: $1" >&2
    failures=$((failures + 1))
}

# refused NAME CODE COMMAND...: exit code CODE, one line on stderr, left in $work/errors, and no output.
refused() {
    local name=$1 code=$2
    shift 2
    "$@" >"$work/output" 2>"$work/errors"
    local found=$?
    [ "$found" -eq "$code" ] || fail "$name: exit code $found instead of $code"
    [ -s "$work/output" ] && fail "$name: printed <$(cat "$work/output")>"
    [ "$(wc -l <"$work/errors")" -eq 1 ] || fail "$name: not one line: <$(cat "$work/errors")>"
}

# report: says how the script went and ends it.
report() {
    [ "$failures" -eq 0 ] || exit 1
    echo "all passed"
    exit 0
}
