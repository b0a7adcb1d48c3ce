#!/usr/bin/env bash
# A run that goes astray ends with 79 on all ranks: nothing that is not finite is saved, what
# was saved before stays and is named; and such files are refused wherever they are read.
set -u
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
wild=("${tiny[@]}" --data synthetic:512 --max-steps 60 --epochs 100 --lr 1e3 --weight-decay 10
      --momentum 0)

# a checkpoint after each step, and one is to be kept: so is the one before, while the loss of
# the last is not known
for np in $ranks; do
    run=$tmp/wild$np
    launch "$np" "${wild[@]}" --save-every 1 --keep-last 1 --out "$run"
    cases=$((cases + 1))
    [ "$code" = 79 ] || complain "np $np: want exit code 79"
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

# astray TEXT ARGS...: ends with 79 and leaves neither model nor checkpoint
astray() {
    local text=$1 np
    shift
    for np in $ranks; do
        rm -rf "$tmp/astray"
        touch "$tmp/started"
        launch "$np" "$@" --out "$tmp/astray"
        judge 79 "np $np: $*" "$text" "lower --lr"
        must grep -qF "no checkpoint was saved" "$tmp/stderr"
    done
}
# the state at the end, of which no step's loss tells; whether a checkpoint is due or not
astray "after step $step the " "${wild[@]}" --max-steps "$step"
astray "after step $step the " "${wild[@]}" --max-steps "$step" --save-every 0
# finite weights that test as nothing, at the end of an epoch and within one
nothing=("${tiny[@]}" --lr 1e3 --weight-decay 10 --momentum 0)
astray "epoch 1: after step 2 the test loss is" "${nothing[@]}" --max-steps 9 --epochs 9
astray "epoch 1: after step 1 the test loss is" "${nothing[@]}" --max-steps 1

ranks=1 # that all ranks end with one message has been seen


# finite weights whose next step's loss is finite, too, but not its running statistics: whatever the
# rate, they lead there at once, and the ones before are the way on
over=("${tiny[@]}" --shards 4 --save-every 1 --check-every 1 --keep-last 4 --out "$tmp/over")
launch 1 "${over[@]}" --lr 100 --max-steps 14
must test "$code" = 79
for try in 1 2 3 4; do
    launch 1 --out "$tmp/over" --resume auto --resume-force --lr 0 --max-steps 14 --threads 1
    [ "$code" = 79 ] || break
done
must test "$code" = 0
accepts verify "$tmp/over"

# finite weights, saved, whose loss is not: they are not the way on, the ones before are
tests_nothing() { # LR KEEP: a run that ends with 79 and a checkpoint that leads there
    lost=("${tiny[@]}" --image-size 32 --max-steps -1 --epochs 10 --save-every 1 --keep-last "$2"
          --out "$tmp/lost-$1-$2")
    launch 1 "${lost[@]}" --lr "$1"
    must test "$code" = 79
    must grep -qF "the test loss is" "$tmp/stderr"
}
for lr in 30 100 1e3; do
    for keep in 1 2; do
        tests_nothing "$lr" "$keep"
        way=$(sed -nE 's/^dtrain: .* --resume ([^ ,]+), and .*/\1/p' "$tmp/stderr")
        must test -d "$way"
        must test "$(basename "$way")" = "$(ls "$tmp/lost-$lr-$keep/checkpoints" | tail -n 1)"
        must grep -qF "leads to what is not finite: renamed to .undone-step-" "$tmp/stderr"
        accepts "${lost[@]}" --resume auto --resume-force --lr 1e-4
        must grep -qF "resumed from $way " "$tmp/stderr"
    done
done
# none before it is left: it stays, and nobody is sent there
tests_nothing 1e3 3
run=$tmp/lost-1e3-3/checkpoints
rm -r "$run/step-0000000001"
mv "$run/.undone-step-0000000002" "$run/step-0000000002"
launch 1 "${lost[@]}" --lr 1e3 --resume auto
must test "$code" = 79
must grep -qF "$run/step-0000000002 has finite numbers alone, but leads there" "$tmp/stderr"
must test "$(ls -A "$run")" = step-0000000002
refuses 79 "the loss of the test images is not finite" -- eval --data synthetic:64 \
    --image-size 32 --model "$run/step-0000000002/model.safetensors"

# one that was gone on from and led astray a step later: it is named, not the one that it led to
run=$tmp/twice
twice=("${tiny[@]}" --max-steps -1 --epochs 20 --save-every 1 --out "$run")
launch 1 "${twice[@]}" --lr 1e6 --momentum 1
must test "$code" = 79
way=$(sed -nE 's/^dtrain: .* --resume ([^ ,]+), and .*/\1/p' "$tmp/stderr")
for try in 1 2 3; do
    launch 1 "${twice[@]}" --lr 1e6 --momentum 1 --resume auto
    must test "$code" = 79
    must grep -qF -- "--resume $way, and --resume-force" "$tmp/stderr"
    must test "$(ls "$run/checkpoints" | tail -n 1)" = "$(basename "$way")"
done
accepts "${twice[@]}" --lr 1e-4 --momentum 0 --epochs 3 --resume auto --resume-force

# one that has others before it: they are better, and it is not called one that had no finite loss
run=$tmp/at-once
at_once=("${tiny[@]}" --data synthetic:256 --epochs 2 --max-steps -1 --save-every 1 --out "$run")
launch 1 "${at_once[@]}" --lr 3e5
must test "$code" = 79
must grep -qF "dtrain: the last checkpoint that gave a finite loss too: --resume $run/checkpoints/step-0000000002," "$tmp/stderr"
launch 1 "${at_once[@]}" --lr 3e5 --resume auto
must test "$code" = 79
must grep -qF "dtrain: the last checkpoint before the one that went astray in its first step: --resume $run/checkpoints/step-0000000001," "$tmp/stderr"
accepts "${at_once[@]}" --lr 1e-4 --resume auto --resume-force
must grep -qF "resumed from $run/checkpoints/step-0000000001 " "$tmp/stderr"

# one that leads there whatever the options: the one before it is named, too
run=$tmp/doomed
doomed=("${tiny[@]}" --data synthetic:256 --save-every 2 --out "$run")
accepts "${doomed[@]}" --max-steps 8
for rate in 1e6 1e-4; do
    launch 1 "${doomed[@]}" --max-steps -1 --lr "$rate" --resume auto --resume-force
    must test "$code" = 79
    must grep -qF -- "--resume $run/checkpoints/step-0000000010, and --resume-force" "$tmp/stderr"
done
way=$(sed -nE 's/^dtrain: .*; if it does so with them, --resume ([^ ]+)$/\1/p' "$tmp/stderr")
must test "$way" -ef "$run/checkpoints/step-0000000008-2"
accepts "${doomed[@]}" --max-steps -1 --epochs 3 --lr 1e-4 --resume "$way" --resume-force

# files with a number that is none
accepts "${tiny[@]}" --out "$tmp/good"
cp "$tmp/good/model.safetensors" "$tmp/nan"
offset=$(($(stat -c %s "$tmp/nan") - 4)) # of a float: those come last
printf '\377\377\377\377' | dd of="$tmp/nan" bs=1 seek="$offset" conv=notrunc status=none
for command in "average $tmp/good $tmp/nan --out $tmp/no" "convert $tmp/nan --out $tmp/no" \
    "eval --data synthetic:64 --model $tmp/nan" "verify $tmp/nan"; do
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
    [ "$code" = 0 ] || complain "a sparse file of 800 MiB in 600 MB of memory"
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
