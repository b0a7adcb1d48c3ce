#!/usr/bin/env bash
# A run folder means its newest valid state: the model of a finished run, or a checkpoint
# beyond it, as a run leaves them that was resumed and killed.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
run=$tmp/run
data=(--data synthetic:64 --threads 1 --precision fp32)
said() { must test "$(grep -cF "the newest state of $run is $1, step $2" "$tmp/stderr")" = 1; }

# of FOLDER STEP: what eval says of the run is what it says of FOLDER, on any number of ranks
of() {
    local np
    accepts eval "${data[@]}" "$1"
    cp "$tmp/stdout" "$tmp/want"
    for np in $ranks; do
        launch "$np" eval "${data[@]}" "$run"
        judge 0 "np $np: eval $run" "the newest state of $run is $1, step $2"
        must cmp "$tmp/want" "$tmp/stdout"
    done
}

# look: sets $newest and $before, the run's last two checkpoints, and $last, the newest's step
look() {
    local names
    mapfile -t names < <(ls "$run/checkpoints" | grep '^step-' | sort)
    newest=$run/checkpoints/${names[-1]}
    before=$run/checkpoints/${names[-2]:-none}
    last=$((10#$(basename "$newest" | cut -d- -f2)))
}

accepts "${tiny[@]}" --max-steps 4 --epochs 2 --lr 0.05 --save-every 1 --keep-last 3 --out "$run"
of "$run/model.safetensors" 4

# resumed, and killed once it has later checkpoints
start 1 --out "$run" --resume auto --max-steps 1000000 --epochs 1000000 --save-every 1 --keep-last 2
later() { look && [ "$last" -gt 7 ]; }
must soon later
job_kill
look
must test -s "$run/model.safetensors" # the old one
of "$newest" "$last"
accepts convert "$run" --out "$tmp/a"
said "$newest" "$last"
accepts convert "$newest" --out "$tmp/b"
must cmp "$tmp/a" "$tmp/b"
rm "$tmp/a" "$tmp/b"
accepts average "$run" "$run/model.safetensors" --out "$tmp/a"
accepts average "$newest" "$run/model.safetensors" --out "$tmp/b"
must cmp "$tmp/a" "$tmp/b"
accepts verify "$run"
said "$newest" "$last"
for init in "$run" "$newest"; do
    accepts "${tiny[@]}" --init "$init" --out "$tmp/new"
    grep '^weights hash' "$tmp/stdout" >>"$tmp/hashes"
    rm -r "$tmp/new"
done
must test "$(sort -u "$tmp/hashes" | wc -l)" = 1

# one that was copied, renamed or linked is not of the step that its name says
cp -r "$before" "$run/checkpoints/step-8888888888"
ln -s "$(basename "$before")" "$run/checkpoints/step-9999999999"
of "$newest" "$last"
must test "$(grep -c "step-[89]*: state.json has run_step .*; skipped" "$tmp/stderr")" = 2
rm -r "$run"/checkpoints/step-[89][89]*

# the newest is torn: the one before it; all are: the model
printf X | dd of="$newest/model.safetensors" bs=1 seek=5000 conv=notrunc status=none
ranks=1
of "$before" "$((10#$(basename "$before" | cut -d- -f2)))"
must grep -q "$newest.*skipped" "$tmp/stderr"
printf X | dd of="$before/state.json" bs=1 seek=5 conv=notrunc status=none
rm -rf $(ls -d "$run"/checkpoints/step-* | grep -vxF -e "$newest" -e "$before")
of "$run/model.safetensors" 4
# and so is the model: nothing is left
printf X | dd of="$run/model.safetensors" bs=1 seek=9 conv=notrunc status=none
refuses 65 "none of the 2 checkpoints in" "is valid" -- eval "${data[@]}" "$run"

# of a run that prunes while others read: a success, or the checkpoint that went by its name
reads() {
    launch 1 "$@"
    cases=$((cases + 1))
    { [ "$code" = 0 ] && successes=$((successes + 1)); } ||
        { [ "$code" = 66 ] && grep -q "$run/checkpoints/step-.*No such file" "$tmp/stderr"; } || complain "$*"
}
rm -r "$run"
start 1 "${tiny[@]}" --epochs 1000000 --max-steps -1 --save-every 1 --keep-last 1 --out "$run"
must soon has_checkpoint "$run" 2
successes=0
for _ in $(seq 20); do
    reads eval "${data[@]}" "$run"
    reads "${tiny[@]}" --init "$run" --max-steps 0 --out "$tmp/new"
    rm -rf "$tmp/new"
done
must test "$successes" -gt 0
job_kill
finish
