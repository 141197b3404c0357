#!/bin/bash
# Checkpoints of bench/configs for scripts of this folder, which work in the folder above.
cache=${TMPDIR:-/tmp}/sluice-bench

# synthesise PROGRAM NAME: writes the checkpoint unless it is there; another configuration of that name replaces it.
synthesise() {
    local program=$1 name=$2 directory=$cache/$2
    cmp -s "bench/configs/$name.json" "$directory/config.json" && return
    rm -rf "$directory" "$directory.new"
    mkdir -p "$cache"
    "$program" synth --config "bench/configs/$name.json" --out "$directory.new" >/dev/null
    mv "$directory.new" "$directory"
    # Out of the page cache: what a program has written lies there in small pages, what is read in large ones.
    for file in "$directory"/*.safetensors; do
        dd of="$file" oflag=nocache conv=notrunc,fdatasync count=0 status=none
    done
}
