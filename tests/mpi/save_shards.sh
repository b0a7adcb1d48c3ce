#!/usr/bin/env bash
# Checkpoints in pieces: a run that stops goes on from them on other numbers of ranks and under other
# strategies with one pair of hashes; what is merged of them is the default's file, byte for byte;
# and what is damaged is refused by name.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
recipe=(--data synthetic:76 --net vgg11 --width-divisor 16 --global-batch 32 --shards 8 --precision fp32
        --threads 1 --epochs 3)
shard=model-00001-of-00001.safetensors

want=$(trained 1 "$tmp/one" "${recipe[@]}" --max-steps 5)
# goes_on NP ARGS...: of a copy of $tmp/run
goes_on() {
    rm -rf "$tmp/next"
    cp -r "$tmp/run" "$tmp/next"
    launch "$1" --out "$tmp/next" --resume auto --data synthetic:76 --threads 1 --max-steps 5 "${@:2}"
    cases=$((cases + 1))
    [ "$(hashes "$tmp/next")" = "$want" ] || complain "np $*: '$(hashes "$tmp/next")', want '$want'"
}
must test "$(wc -w <<<"$want")" = 2
for how in "4" "4 --strategy all=out --tensor-parallel 2" "3 --strategy features.*=out"; do
    read -ra words <<<"$how"
    rm -rf "$tmp/run"
    trained "${words[0]}" "$tmp/run" "${recipe[@]}" --max-steps 4 --save-every 2 --save-shards "${words[@]:1}" >"$tmp/hashes"
    for np in 1 2 3; do goes_on "$np"; done
    goes_on 8 --strategy classifier=out --tensor-parallel 4 --no-save-shards
done

# of the same step: whole, merged, cut for other ranks, merged again
trained 2 "$tmp/whole" "${recipe[@]}" --max-steps 3 --save-every 2 >"$tmp/hashes"
trained 4 "$tmp/pieces" "${recipe[@]}" --max-steps 3 --save-every 2 --save-shards --strategy all=out --tensor-parallel 2 >"$tmp/hashes"
step=$tmp/pieces/checkpoints/step-0000000003 whole=$tmp/whole/checkpoints/step-0000000003
accepts merge "$step" --out "$tmp/merged"
must cmp "$tmp/merged" "$tmp/whole/model.safetensors"
accepts merge "$step"/momentum/* --out "$tmp/momentum"
must cmp "$tmp/momentum" "$whole/momentum.safetensors"
accepts merge "$step"/momentum/* --shards 3 --out "$tmp/three"
must test "$(find "$tmp/three" -type f | wc -l)" = 3
accepts merge "$tmp/three"/* --out "$tmp/again"
must cmp "$tmp/momentum" "$tmp/again"
accepts merge "$tmp/whole" --shards 2 --out "$tmp/two"
accepts convert "$tmp/two" --out "$tmp/converted"
must cmp "$tmp/converted" "$tmp/merged"
for model in "$step" "$tmp/two" "$whole"; do
    accepts eval "$model" --data synthetic:76 --net vgg11 --precision fp32 --json
    sed -E 's/"model": "[^"]*",? ?//' "$tmp/stdout" >"$tmp/eval"
    [ ! -e "$tmp/first" ] || must cmp "$tmp/eval" "$tmp/first"
    mv "$tmp/eval" "$tmp/first"
done
accepts verify "$tmp/pieces"
must grep -q "step 3 .*in 4 portions" "$tmp/stdout"
accepts average "$step" "$whole" --out "$tmp/mean"
must cmp "$tmp/mean" "$tmp/merged"
accepts "${recipe[@]}" --max-steps 0 --init "$step" --out "$tmp/begun"
bytes() { cat "$@" | wc -c; }
must test $(($(bytes "$step"/shard-*) - $(bytes "$whole/model.safetensors"))) -lt $((4 * 20000))

# pruned like all others, and what a kill has left goes
accepts "${recipe[@]}" --max-steps 5 --save-every 1 --save-shards --out "$tmp/pruned"
must test "$(find "$tmp/pruned/checkpoints" -mindepth 1 -maxdepth 1 | wc -l)" = 2

# a disk of each host's own, on which an earlier run has left its lock (mpirun's own way to start two
# programs, with a colon, crashes in Open MPI 5.0.7)
mkdir -p "$tmp/a" "$tmp/b/run" && touch "$tmp/b/run/.lock"
apart=("$DTRAIN_BIN" "${recipe[@]}" --save-shards --out run)
program "$tmp/either" <<END
#!/usr/bin/env bash
if [ "\${OMPI_COMM_WORLD_RANK:-\$PMI_RANK}" = 0 ]; then cd "$tmp/a"; else cd "$tmp/b"; fi
exec $(printf '%q ' "${apart[@]}")
END
timeout -k 2 "$limit" mpirun -np 2 "$tmp/either" >"$tmp/stdout" 2>"$tmp/stderr"
must test $? = 73
must grep -q "is not seen here: --save-shards needs a disk that all hosts share" "$tmp/stderr"
must test ! -e "$tmp/a/run/options.yaml"

# damage
damaged() { # WANT COMMANDS: in a copy of the checkpoint
    rm -rf "$tmp/bad"
    cp -r "$step" "$tmp/bad"
    (cd "$tmp/bad" && eval "$2")
    refuses 65 "$1" -- verify "$tmp/bad"
}
ranks=1
damaged "shard-00002-$shard: No such file" "rm shard-00002-*"
damaged "momentum/shard-00001-$shard has" "truncate -s -4 momentum/shard-00001-*"
damaged "shard-00000-$shard is damaged" "printf x | dd of=shard-00000-$shard conv=notrunc seek=9000 bs=1 status=none"
damaged "shard-0000" "mv shard-00000-* x; mv shard-00001-* shard-00000-$shard; mv x shard-00001-$shard"
damaged "tensor 'classifier.bias' has element [0], which" "rm MANIFEST; cp shard-00000-* shard-00003-$shard"
damaged "is portion 0 of 4, files: 3" "rm MANIFEST shard-00003-*"
damaged "its tensors end at" "rm MANIFEST; truncate -s -4 shard-00001-*"
refuses 64 "--out FILE is missing" -- merge "$step"/shard-*
refuses 73 "it exists" -- merge "$step"/shard-* --out "$tmp/merged"
finish
