#!/usr/bin/env bash
# dtrain verify: whole checkpoints, runs and models are called so, the first thing that is wrong is
# named, and --resume auto says the same of a run.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

run=$tmp/run
accepts "${tiny[@]}" --max-steps 3 --save-every 2 --out "$run"
step=$run/checkpoints/step-0000000003
must test -s "$step/MANIFEST"
old() { find "$1" -name 'model*' -exec touch -d '1 hour ago' {} +; } # for refuses: they are not new

prints 1 "ok   $step: step 3" verify "$step"
prints 1 "fit vgg11" verify "$run/model.safetensors"
prints 1 "ok   $run/checkpoints/step-0000000002" verify "$run"
must test "$(grep -c '^ok ' "$tmp/stdout")" = 3 # newest first, then the model
must test "$(sed -n 1p "$tmp/stdout" | cut -d: -f1)" = "ok   $step"
ranks="1 2"

# what is not there, and what is no argument
mkdir "$tmp/empty"
refuses 66 "$tmp/absent" -- verify "$tmp/absent"
refuses 66 "has neither a model nor a checkpoint" -- verify "$tmp/empty"
refuses 64 "usage: dtrain verify PATH" -- verify
refuses 64 "unexpected argument 'two'" -- verify one two
refuses 64 "an argument is empty" -- verify ""
refuses 64 "unexpected argument '$step'" -- train "$step"
ranks=1 # that all ranks end with one message has been seen

# flip FILE OFFSET: one bit
flip() {
    local byte
    byte=$(od -An -tu1 -j "$2" -N1 "$1")
    # shellcheck disable=SC2059
    printf "$(printf '\\%03o' $((byte ^ 4)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}
damage() { # HOW FILE
    case $1 in
    flip) flip "$2" 300 ;;
    cut) truncate -s -1 "$2" ;;
    gone) rm "$2" ;;
    link) mv "$2" "$tmp/leads-here" && ln -s "$tmp/leads-here" "$2" ;;
    pipe) rm "$2" && mkfifo "$2" ;;
    esac
}

# every file of a checkpoint, damaged in every way: named, alone and in its run, and the one before serves
for file in model.safetensors momentum.safetensors options.yaml state.json MANIFEST; do
    for how in flip cut gone link pipe; do
        rm -rf "$tmp/bad"
        cp -r "$run" "$tmp/bad"
        old "$tmp/bad"
        damage $how "$tmp/bad/checkpoints/step-0000000003/$file"
        refuses 65 "$file" -- verify "$tmp/bad/checkpoints/step-0000000003"
        refuses 65 "$file" -- verify "$tmp/bad"
        must grep -q "^bad .*$file" "$tmp/stdout"
        must grep -qF "ok   $tmp/bad/checkpoints/step-0000000002" "$tmp/stdout"
        accepts --out "$tmp/bad" --resume auto --threads 1
        must grep -qF "resumed from $tmp/bad/checkpoints/step-0000000002" "$tmp/stderr"
        must grep -q "step-0000000003.*$file" "$tmp/stderr"
    done
done

# the files beside the checkpoints: verify and --resume auto say the same
# beside CODE TEXT: of what was done to $tmp/bad
beside() {
    old "$tmp/bad"
    refuses "$1" "$2" -- verify "$tmp/bad"
    must grep -qF "$2" "$tmp/stdout"
    refuses "$1" "$2" -- --out "$tmp/bad" --resume auto
}
anew() { rm -rf "$tmp/bad" && cp -r "$run" "$tmp/bad"; }
for wrong in '{ no: [yaml' $'lr: quick\njson: false' $'learning: 1\njson: false' 'a word'; do
    anew && echo "$wrong" >"$tmp/bad/options.yaml"
    beside 78 "options.yaml:1"
done
for lines in 0 1 20; do
    anew && head -n "$lines" "$run/options.yaml" >"$tmp/bad/options.yaml"
    beside 78 "options.yaml ends before 'json'"
done
anew && truncate -s 10 "$tmp/bad/metrics.jsonl"
beside 65 "metrics.jsonl has 10 bytes"
bytes=$(sed -n 's/.*"metrics_bytes": \([0-9]*\),.*/\1/p' "$step/state.json")
anew && printf X | dd of="$tmp/bad/metrics.jsonl" bs=1 seek=$((bytes - 1)) conv=notrunc status=none
beside 65 "no line ends at byte $bytes"
anew && rm "$tmp/bad/metrics.jsonl"
accepts verify "$tmp/bad"
accepts --out "$tmp/bad" --resume auto --threads 1
must test "$(grep -c "metrics.jsonl is missing: a new one begins" "$tmp/stderr")" = 1
accepts verify "$tmp/bad" # whose chain begins in the middle

# a model: a table of {damage, words}
spoil_last() { printf '\377\377\377\377' | dd of="$1" bs=1 seek=$(($(stat -c %s "$1") - 4)) conv=notrunc status=none; }
while IFS='|' read -r command words; do
    cp "$run/model.safetensors" "$tmp/model"
    eval "$command"
    old "$tmp"
    refuses 65 "$tmp/model" "$words" -- verify "$tmp/model"
done <<'END'
flip "$tmp/model" 1|header
truncate -s -1 "$tmp/model"|cut short
spoil_last "$tmp/model"|is not a finite number
sed -i 's/"dtrain.width_divisor":"16"/"dtrain.width_divisor":"32"/' "$tmp/model"|the network's [2, 3, 3, 3]
END

# of a run that is on, what is pruned meanwhile is not bad, and one can be resumed
start 1 "${tiny[@]}" --epochs 1000000 --max-steps -1 --save-every 1 --keep-last 1 --out "$tmp/live"
must soon has_checkpoint "$tmp/live" 2
mv "$tmp/stderr" "$tmp/live-stderr"
for _ in $(seq 20); do
    accepts verify "$tmp/live"
    must test "$(grep -c '^bad' "$tmp/stdout")" = 0
    newest=$(sed -n "s|^the newest state of $tmp/live is \(.*\), step .*|\1|p" "$tmp/stderr")
    must grep -qF "ok   $newest: step" "$tmp/stdout" # it vouches for what it names
done
for i in 1 2 3; do # too short to be resumed, which shows after the checkpoint is read
    gives 78 "$DTRAIN_BIN" --resume "$tmp/live" --out "$tmp/from$i" --max-steps 1
    must grep -q "raise --epochs or --max-steps" "$tmp/stderr"
done
job_kill

# a checkpoint stands for its model
accepts eval "${tiny[@]:0:2}" "$step"

# names in a pickle's refusal cannot end Python's text
name="m',weights_only=False) or exit(1) #.pt"
printf 'PK\003\004aaaaaaaaaaaa' >"$tmp/$name"
refuses 65 "torch.load('$tmp/m\\',weights_only=False) or exit(1) #.pt', 'cpu', weights_only=True)" -- verify "$tmp/$name"

# who may only read may verify
cp -r "$run" "$tmp/foreign"
chmod -R a+rX,a-w "$tmp/foreign"
as=()
if [ "$(id -u)" = 0 ]; then # who may write all the same
    chmod a+x "$tmp"
    cp "$DTRAIN_BIN" "$tmp/dtrain"
    as=(setpriv --reuid 65534 --regid 65534 --clear-groups)
    "${as[@]}" "$tmp/dtrain" version >/dev/null 2>&1 || as=() # no rights to become another
fi
[ ${#as[@]} != 0 ] || ln -sf "$DTRAIN_BIN" "$tmp/dtrain"
gives 0 "${as[@]}" "$tmp/dtrain" verify "$tmp/foreign"
must test "$(grep -c '^ok' "$tmp/stdout")" = 3
chmod -R u+w "$tmp/foreign"
finish
