#!/usr/bin/env bash
# A run that diverges ends with 79 on all ranks: nothing that is not finite is saved, what
# was saved before stays and is named; and such files are refused wherever they are read.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
wild=("${tiny[@]}" --data synthetic:512 --max-steps 60 --epochs 100 --lr 1e3 --weight-decay 10
      --momentum 0)

# a checkpoint after each step, and one is to be kept: so is the one before, while the loss of
# the last is not known
for np in $ranks; do
    run=$tmp/wild$np
    launch "$np" "${wild[@]}" --save-every 1 --keep-last 1 --out "$run"
    exits 79 "np $np"
    step=$(sed -nE 's/^dtrain: .*after step ([0-9]+) the .* is (inf|-?nan); nothing of it is saved.*/\1/p' \
        "$tmp/stderr")
    [[ $step =~ ^[0-9]+$ ]] || complain "np $np: no step is named, or not once"
    last=$(printf 'step-%010d' $((step - 1)))
    before=$(printf 'step-%010d' $((step - 2)))
    must test "$(echo $(ls -A "$run/checkpoints"))" = "$before $last"
    must test "$(grep -cF -- "--resume $run/checkpoints/$last" "$tmp/stderr")" = 1
    must test ! -e "$run/model.safetensors"
    accepts verify "$run"
done

# diverges TEXT ARGS...: ends with 79 and leaves neither model nor checkpoint
diverges() {
    local text=$1 np
    shift
    for np in $ranks; do
        rm -rf "$tmp/diverges"
        launch "$np" "$@" --out "$tmp/diverges"
        judge 79 "np $np: $*" "$text" "lower --lr"
        must grep -qF "no checkpoint was saved" "$tmp/stderr"
    done
}
# the state at the end, of which no step's loss tells; whether a checkpoint is due or not
diverges "after step $step the " "${wild[@]}" --max-steps "$step"
diverges "after step $step the " "${wild[@]}" --max-steps "$step" --save-every 0
# finite weights that test as nothing, at the end of an epoch and within one
nothing=("${tiny[@]}" --lr 1e3 --weight-decay 10 --momentum 0)
diverges "epoch 1: after step 2 the test loss is" "${nothing[@]}" --max-steps 9 --epochs 9
diverges "epoch 1: after step 1 the test loss is" "${nothing[@]}" --max-steps 1

ranks=1 # that all ranks end with one message has been seen

# finite weights, saved, whose loss is not: the ones before are named, and can be resumed with another rate
for lr in 30 1e3; do
    for keep in 1 2; do
        run=$tmp/lost-$lr-$keep
        lost=("${tiny[@]}" --image-size 32 --max-steps -1 --epochs 10 --save-every 1 --keep-last "$keep")
        gives 79 "$DTRAIN_BIN" "${lost[@]}" --lr "$lr" --out "$run"
        must grep -qF "the test loss is" "$tmp/stderr"
        good=$(sed -nE 's/^dtrain: .* --resume ([^ ]+) --out NEW --resume-force, .*/\1/p' "$tmp/stderr")
        must test "$(dirname "$good")" = "$run/checkpoints"
        must test "$(basename "$good")" != "$(ls "$run/checkpoints" | tail -n 1)"
        accepts "${lost[@]}" --resume "$good" --out "$run-new" --resume-force --lr 1e-4
        must grep -qF "resumed from $good " "$tmp/stderr"
    done
done
# a run folder that was moved meanwhile is searched, too: a bit of the exponent is flipped in step 300
DTRAIN_BIN=$DTRAIN_BUILD_DIR/dtrain_flip FLIP="weight 0 300 features.0.weight 30" \
    start 1 "${tiny[@]}" --max-steps 400 --epochs 1000 --save-every 4 --check-every 0 --out "$tmp/goes"
must soon has_checkpoint "$tmp/goes"
mv "$tmp/goes" "$tmp/gone"
job_ends 79
must grep -q -- "checkpoints/step-0000000[0-9]* --out NEW" "$tmp/stderr"
# none before it is left: nothing is named
rm -r "$good"
gives 79 "$DTRAIN_BIN" "${lost[@]}" --lr "$lr" --out "$run" --resume auto --resume-force
must grep -qF "dtrain: no checkpoint was saved before the last finite loss" "$tmp/stderr"
run=$run/checkpoints
refuses 79 "the loss of the test images is not finite" -- eval --data synthetic:64 \
    --image-size 32 "$run/$(ls "$run" | tail -n 1)/model.safetensors"

# files with a number that is not finite
accepts "${tiny[@]}" --out "$tmp/good"
cp "$tmp/good/model.safetensors" "$tmp/nan"
offset=$(($(stat -c %s "$tmp/nan") - 4)) # of a float: those come last
printf '\377\377\377\377' | dd of="$tmp/nan" bs=1 seek="$offset" conv=notrunc status=none
for command in "average $tmp/good $tmp/nan --out $tmp/no" "convert $tmp/nan --out $tmp/no" \
    "eval --data synthetic:64 $tmp/nan" "verify $tmp/nan"; do
    # shellcheck disable=SC2086
    refuses 65 "$tmp/nan" "is not a finite number" -- $command
done
refuses 65 "$tmp/nan" "is not a finite number" -- "${tiny[@]}" --init "$tmp/nan" --out "$tmp/init"
must test ! -e "$tmp/no"

# a header may claim a lot: what verify takes does not grow with it
perl -e 'my $n = 800 << 20; my $h = qq({"x":{"dtype":"F32","shape":[).($n / 4).qq(],"data_offsets":[0,$n]}});
    print pack("Q<", length $h), $h; truncate STDOUT, 8 + length($h) + $n' >"$tmp/sparse"
if [ -z "${ASAN_OPTIONS:-}" ]; then # whose shadow is larger than any limit
    (ulimit -v 600000 && "$DTRAIN_BIN" verify "$tmp/sparse" >"$tmp/stdout" 2>"$tmp/stderr")
    code=$?
    cases=$((cases + 1))
    [ "$code" = 65 ] && grep -q "holds no classifier" "$tmp/stderr" || complain "a sparse file of 800 MiB"
fi
# nor with the network that it names
perl -e 'binmode STDOUT; local $/; open my $f, "<:raw", $ARGV[0]; my $all = <$f>;
    my $n = unpack "Q<", $all; my $h = substr $all, 8, $n;
    $h =~ s/"dtrain.width_divisor": ?"16"/"dtrain.width_divisor":"1"/ or die;
    $h =~ s/"dtrain.classes": ?"10"/"dtrain.classes":"1000000"/ or die;
    print pack("Q<", length $h), $h, substr($all, 8 + $n)' "$tmp/good/model.safetensors" >"$tmp/large"
refuses 65 "the network vgg11 has at least" "another one than the file says" -- verify "$tmp/large"
truncate -s -1 "$tmp/sparse"
refuses 65 "it was cut short" -- verify "$tmp/sparse"
finish
