#!/usr/bin/env bash
# Options that are gone: each is answered with what to write instead, on the command line, in a
# file and as a variable; an older run whose options.yaml has them goes on.
set -u
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

# NAME|its default|another value|what is said
gone='account|false|true|bench always prints
broadcast|false|true|all ranks begin with the same weights
csv|false|true|runs --json
engine_check|true|false|always checked
grad_threshold|0.001|0.1|--grad-compress 2bit:T
log_every|10|60|every 10 s
logdir|tensorboard|here|tensorboard --out DIR
lr_batch|256|32|--lr-scale linear:N
lr_from|0.0001|0.01|a 100000th of --lr-to
model||m.safetensors|dtrain eval MODEL
network|here|10gbit|bench --predict N,N@NET
parallel|by_strategy|auto|--strategy auto
raw_input|false|true|--to onnx-raw
script||a.gp|plot --out FILE.gp
split_nodes|1|2|DT_SPLIT_NODES=N
stall_warn|10|60|--stall-abort SECONDS
strategy_out||a.yaml|options.yaml in the run
trace_steps|1:20|2:5|--trace FILE.json@A:B
verbose|false|true|--print-config
warmup_steps|3|9|bench always takes 3 steps'
equal "$(cut -d '|' -f 1 <<<"$gone")" \
    "$(sed -n '/dt_option_gone gone/,/^};/s/^    {"\([a-z_]*\)".*/\1/p' "$DTRAIN_SOURCE/src/options/options.c")"

ranks=1
accepts "${tiny[@]}" --epochs 2 --out "$tmp/run"
cp "$tmp/run/options.yaml" "$tmp/now.yaml"
while IFS='|' read -r name default other says; do
    refuses 64 "--${name//_/-} is gone: " "$says" -- "${tiny[@]}" "--${name//_/-}" "$other"
    refuses 64 "--no-${name//_/-} is gone: " "$says" -- "${tiny[@]}" "--no-${name//_/-}"
    printf '%s: "%s"\n' "$name" "$other" >"$tmp/a.yaml"
    refuses 78 "$tmp/a.yaml:1:1: '$name' is gone: " "$says" -- "${tiny[@]}" --config "$tmp/a.yaml"
    export "DTRAIN_${name^^}=$default"
    refuses 78 "DTRAIN_${name^^} is gone: " "$says" -- "${tiny[@]}"
    unset "DTRAIN_${name^^}"
    printf '%s: "%s"\n' "$name" "$default" >>"$tmp/defaults.yaml"
    [[ $name == @(grad_threshold|lr_batch) ]] || printf '%s: "%s"\n' "$name" "$other" >>"$tmp/others.yaml"
done <<<"$gone"

accepts --config "$tmp/defaults.yaml" --print-config
equal "$("$DTRAIN_BIN" --print-config)" "$(cat "$tmp/stdout")"

# an older run: its options are those of today and these; what decides no bit may have any value
steps=1
for older in defaults others; do
    cat "$tmp/now.yaml" "$tmp/$older.yaml" >"$tmp/run/options.yaml"
    steps=$((steps + 1))
    accepts --out "$tmp/run" --resume auto --max-steps $steps
    must test "$(grep -c '"kind":"step"' "$tmp/run/metrics.jsonl")" = $steps
    equal "$(cut -d : -f 1 "$tmp/now.yaml")" "$(cut -d : -f 1 "$tmp/run/options.yaml")"
    cat "$tmp/now.yaml" "$tmp/$older.yaml" >"$tmp/run/options.yaml"
    accepts eval "$tmp/run"
done
{ cat "$tmp/now.yaml" && echo 'lr_batch: 32'; } >"$tmp/run/options.yaml"
refuses 78 "options.yaml:" "'lr_batch' is gone: write --lr-scale linear:N" -- --out "$tmp/run" --resume auto
finish
