#!/usr/bin/env bash
# What only several ranks can get wrong: too many of them, or one that sees something else.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

ranks=3 refuses 78 "3 ranks" "2 shards" "--shards 3" -- "${tiny[@]}" --shards 2 --out "$tmp/run"
ranks=2 refuses 78 "--shards 8" "--accum 2" -- "${tiny[@]}" --shards 8 --accum 2 --out "$tmp/run"
ranks=8 refuses 78 "8 ranks" "4 shards" -- summary --shards 4
ranks=2 refuses 0 -- "${tiny[@]}" --shards 8 --accum 4 --out "$tmp/good"

# two CODE TEXT|TEXT... FIRST... : SECOND...: two ranks that are started differently, by a program
# that looks which one it is (mpirun's own way, with a colon, crashes in Open MPI 5.0.7).
two() {
    local want=$1 texts=() first=()
    IFS='|' read -ra texts <<<"$2"
    shift 2
    while [ "$1" != : ]; do
        first+=("$1")
        shift
    done
    shift
    program "$tmp/either" <<END
#!/usr/bin/env bash
if [ "\${OMPI_COMM_WORLD_RANK:-\$PMI_RANK}" = 0 ]; then exec $(printf '%q ' "${first[@]}"); fi
exec $(printf '%q ' "$@")
END
    bounded mpirun -np 2 "$tmp/either"
    judge "$want" "[${first[*]}] against [$*]" "${texts[@]}"
    [ "$want" = 0 ] || must test ! -e "$tmp/run/model.safetensors"
    rm -rf "$tmp/run"
}
run=("$DTRAIN_BIN" "${tiny[@]}" --out "$tmp/run")
two 76 "lr|0.25|0.5" "${run[@]}" --lr 0.25 : "${run[@]}" --lr 0.5
two 76 "seed" "${run[@]}" --seed 7 : "${run[@]}"
two 76 "command|help" "${run[@]}" : "$DTRAIN_BIN" --help
two 76 "command|summary" "$DTRAIN_BIN" summary : "${run[@]}"
two 64 "unknown option '--wrong'|rank 1" "${run[@]}" : "${run[@]}" --wrong
two 64 "unknown option '--wrong'|rank 0" "${run[@]}" --wrong : "${run[@]}"
two 64 "--lr: 'x'|rank 1" "${run[@]}" : "${run[@]}" --lr x

# the same options, but the files behind them differ: by content, by size, by absence
mkdir "$tmp/a" "$tmp/b" "$tmp/c"
images "$tmp/a/images"
images "$tmp/b/images"
rm "$tmp/b/images/train/dog/4.png"
here=("${run[@]}" --data images --image-size 32 --global-batch 4)
two 0 "" env -C "$tmp/a" "${here[@]}" : env -C "$tmp/a" "${here[@]}"
two 76 "data" env -C "$tmp/a" "${here[@]}" : env -C "$tmp/b" "${here[@]}"
two 66 "images|rank 1" env -C "$tmp/a" "${here[@]}" : env -C "$tmp/c" "${here[@]}"

# a configuration that only one rank can read
echo 'lr: 0.1' >"$tmp/a/c.yaml"
two 66 "c.yaml|rank 1" env -C "$tmp/a" "${run[@]}" --config c.yaml : \
    env -C "$tmp/b" "${run[@]}" --config c.yaml
finish
