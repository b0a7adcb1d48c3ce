#!/usr/bin/env bash
# The command line: what is wrong is named once, with the nearest name, on every rank count.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

# unit_cli_settings has all forms
refuses 64 "unknown option '--momentun'" "did you mean --momentum?" -- --momentun=0.9
refuses 64 "--save-every: '0x10'" "30s" -- "${tiny[@]}" --out "$tmp/run" --save-every 0x10
refuses 78 "'synthetic: 64'" -- --data 'synthetic: 64'

# texts that options.yaml could not give back to a resumed run
for option in out data init; do
    refuses 64 "--$option: " "want UTF-8" -- "${tiny[@]}" "--$option" "$tmp/"$'caf\xe9'
done
DTRAIN_OUT=$tmp/$'a\tb' refuses 78 "DTRAIN_OUT: " "want UTF-8" -- "${tiny[@]}"
must test -z "$(find "$tmp" -name 'caf*' -o -name 'a?b')"

# together
refuses 64 "missing argument; usage: dtrain eval MODEL" -- eval --data synthetic:64
refuses 78 "--no-init-head" "no --init" -- "${tiny[@]}" --out "$tmp/run" --no-init-head

# an option of another command: --steps would be no length of a training
refuses 64 "--steps is an option of bench, not of train" -- "${tiny[@]}" --out "$tmp/run" --steps=5
must test ! -e "$tmp/run"
accepts bench --steps 5 --help

# a naming that the network does not have is seen before the training, not after it
refuses 78 "cs744" "resnet50" -- "${tiny[@]}" --net resnet50 --image-size 32 \
    --names cs744 --out "$tmp/run"
must test ! -e "$tmp/run"

# choices that are not for training are not offered to it
refuses 78 "--exchange all is not for training; use one of: auto shared" "allreduce buckets" -- \
    "${tiny[@]}" --exchange all --out "$tmp/run"
must test "$(grep -cE 'use one of.* all( |$)' "$tmp/stderr")" = 0

# bf16 that is not to be had: what limits it, and a remedy that is one
ranks=1
run=("${tiny[@]}" --precision bf16 --out "$tmp/run")
refuses 78 "instruction set portable (--isa); take --precision fp32, or --isa amx" -- \
    "${run[@]}" --isa portable
DT_MAX_ISA=portable refuses 78 "no kernels for the instruction set portable (DT_MAX_ISA)" \
    "or --isa amx" -- "${run[@]}"
DT_MAX_ISA=portable refuses 78 "--isa avx2: there is portable (DT_MAX_ISA)" -- \
    "${run[@]}" --isa avx2
DT_MAX_ISA=portable accepts "${run[@]}" --isa amx
finish
