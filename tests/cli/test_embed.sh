#!/usr/bin/env bash
# The installed library from outside: into a prefix of its own, moved, found by pkg-config, linked by C and C++.
# Usage: test_embed.sh BUILD_DIR SOURCE_DIR
set -u
build=$1
source_dir=$2
# shellcheck source=tests/cli/support.sh
. "$2/tests/cli/support.sh"

cmake --install "$build" --prefix "$work/first" --component embed >"$work/log" 2>&1 || fail "install: $(cat "$work/log")"
mv "$work/first" "$work/prefix"
pc=$(find "$work/prefix" -name sluice.pc)
[ -n "$pc" ] || fail "no sluice.pc"
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
read -ra flags <<<"$(pkg-config --cflags --libs sluice)"
LD_LIBRARY_PATH=$(pkg-config --variable=libdir sluice)
export LD_LIBRARY_PATH

# A C program, and the same source as C++ as far as it is both.
example=$source_dir/examples/embed/embed.c
cc -std=c17 -Wall -Wextra -Wpedantic -Werror "$example" "${flags[@]}" -o "$work/embed" || fail "the example does not compile"
(cd "$work/prefix/include/sluice" && printf '#include <sluice/%s>\n' ./*) >"$work/all.cc"
cat >>"$work/all.cc" <<'SOURCE'
int main() {
    sluice_engine *engine = nullptr;
    sluice_engine_options options = sluice_engine_options_default();
    options.model_directory = "/nowhere";
    bool is_refused = sluice_engine_open(&options, &engine) != SLUICE_OK;
    return is_refused && engine == nullptr && sluice_last_error()[0] != 0 ? 0 : 1;
}
SOURCE
c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror "$work/all.cc" "${flags[@]}" -o "$work/all" || fail "C++ does not compile"
"$work/all" || fail "C++ gets no error for a model that is nowhere"

# It runs: both requests end, each token is printed, twice the same.
"$work/embed" "$source_dir/models/mini-v4" >"$work/run1" || fail "the example failed"
"$work/embed" "$source_dir/models/mini-v4" >"$work/run2" || fail "the example failed the second time"
grep -v '^usage' "$work/run1" >"$work/tokens1"
grep -v '^usage' "$work/run2" | cmp -s - "$work/tokens1" || fail "two runs differ"
for i in 0 1; do
    printed=$(sed -n "s/^request $i://p" "$work/run1" | wc -w)
    counted=$(sed -n "s/^usage $i: 4 prompt tokens, 0 cached, \([0-9]*\) new, .* ended by \(stop\|length\)\$/\1/p" "$work/run1")
    [[ $printed -gt 0 && $printed = "$counted" ]] || fail "request $i printed $printed tokens, its usage says <$counted>"
done
refused "no such model" 1 "$work/embed" /nowhere
refused "no argument" 2 "$work/embed"

# The library shows what the headers declare, and nothing else.
nm -D --defined-only "$LD_LIBRARY_PATH/libsluice.so" | awk '{print $3}' | sort >"$work/shown"
grep -hoE '\bsluice_[a-z_]+\(' "$source_dir"/include/sluice/*.h | tr -d '(' | sort -u >"$work/declared"
cmp -s "$work/shown" "$work/declared" || fail "shown and declared differ: $(diff "$work/shown" "$work/declared" | tr '\n' ' ')"
report
