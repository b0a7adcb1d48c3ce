#!/usr/bin/env bash
# Little address space (ulimit -v): a command does what it should or says that memory is
# missing, and ends, also where libraries would not.
. "$DTRAIN_SOURCE/tests/support/cli.bash"
unset OPENBLAS_NUM_THREADS # as users start it: it starts itself once more
if [ -n "${ASAN_OPTIONS:-}" ]; then
    echo "SKIPPED: address space: sanitizers map terabytes"
    exit 99
fi

for mib in 130 150 170 190 200 205 210 220 250 300; do
    for command in version "plan --net vgg11"; do
        # shellcheck disable=SC2086
        bounded bash -c "ulimit -v $((mib * 1024)); exec \"\$@\"" - "$DTRAIN_BIN" $command
        cases=$((cases + 1))
        # 127: the loader found no room; 71: the program itself
        [[ $code =~ ^(0|71|127)$ ]] || complain "$command within $mib MiB"
    done
done
refuses_within() { # ULIMIT-OPTION VALUE: one line, and code 71
    bounded bash -c "ulimit $1 $2; exec \"\$@\"" - "$DTRAIN_BIN" "${tiny[@]}" --out "$tmp/refused"
    cases=$((cases + 1))
    { [ "$code" = 71 ] && grep -q -- "ulimit $1" "$tmp/stderr" && [ "$(wc -l <"$tmp/stderr")" = 1 ]; } ||
        complain "training with ulimit $1 $2"
}
refuses_within -v 300000
for kib in 30000 60000 70000 200000; do refuses_within -d "$kib"; done
for kib in 128 512; do refuses_within -s "$kib"; done
for files in 5 7 60; do refuses_within -n "$files"; done # else it would lose its model at the end
must test ! -e "$tmp/refused"
refuses_within -f 40 # KiB: the messages' file is one, too
must test ! -e "$tmp/refused"
for stack in OMP_STACKSIZE=16k OMP_STACKSIZE=512 GOMP_STACKSIZE=" 100000 B"; do
    bounded env "$stack" "$DTRAIN_BIN" "${tiny[@]}" --threads 2 --out "$tmp/refused"
    cases=$((cases + 1))
    { [ "$code" = 71 ] && grep -q "^dtrain: $stack gives threads a stack of" "$tmp/stderr"; } ||
        complain "training with $stack"
done
must test ! -e "$tmp/refused"
for stack in OMP_STACKSIZE=1m OMP_STACKSIZE=4096 OMP_STACKSIZE=lots; do # the last is not taken
    bounded env "$stack" "$DTRAIN_BIN" "${tiny[@]}" --threads 2 --out "$tmp/$stack"
    must test "$code" = 0
done
# a stack that is not to be had, a CPU that is not ours: libgomp would end without a word of ours
cpu=$(($(sed -n 's/^Cpus_allowed_list:.*[,\t-]//p' /proc/self/status) + 1))
touch "$tmp/started"
for variable in OMP_STACKSIZE=100000G GOMP_STACKSIZE=99000000000 GOMP_CPU_AFFINITY="0 $cpu"; do
    bounded env "$variable" "$DTRAIN_BIN" "${tiny[@]}" --threads 2 --out "$tmp/refused"
    judge 71 "training with $variable" "$variable" "unset it"
    must test ! -e "$tmp/refused"
    bounded env "$variable" "$DTRAIN_BIN" "${tiny[@]}" --threads 1 --out "$tmp/alone-${variable%=*}"
    must rm -r "$tmp/alone-${variable%=*}"
    must test "$code" = 0 # which needs none
done
# A training's libraries, threads and kernels take room of their own.
for mib in 190 260 320 500 700 800 1000; do
    for net in vgg11 resnet50; do
        bounded bash -c "ulimit -v $((mib * 1024)); exec \"\$@\"" - "$DTRAIN_BIN" "${tiny[@]}" \
            --net "$net" --image-size 32 --threads 2 --out "$tmp/run-$net-$mib"
        cases=$((cases + 1))
        [[ $code =~ ^(0|71|127)$ ]] || complain "training $net within $mib MiB"
    done
done
finish
