#!/usr/bin/env bash
# scripts/same-bits: 0 for one hash, 1 for several, with programs that print what is wanted,
# and with dtrain itself.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
must() { cases=$((cases + 1)); "$@" || { echo "not so: $*"; bad=1; }; }
# same CODE ARGUMENTS...: what scripts/same-bits leaves with; its words in $tmp/said
same() {
    local want=$1 got=0
    shift
    timeout -k 2 1800 "$DTRAIN_SOURCE/scripts/same-bits" "$@" >"$tmp/said" 2>&1 || got=$?
    [ "$got" = "$want" ] || { cat "$tmp/said"; return 1; }
}
# A run that waits to be killed once it has a checkpoint, and that ends with $HASH when resumed.
program "$tmp/run" <<'END'
#!/usr/bin/env bash
while [ $# -gt 0 ]; do
    case $1 in
    --out) out=$2 ;;
    --resume) resumed=yes ;;
    esac
    shift
done
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}} np=${OMPI_COMM_WORLD_SIZE:-${PMI_SIZE:-1}}
if [ "${resumed:-no}" = no ]; then
    # A rank that is killed before it has a process group of its own takes Open MPI 5's mpirun with it.
    mkdir -p "$out/ranks/$rank"
    [ "$(ls "$out/ranks" | wc -l)" -lt "$np" ] || mkdir -p "$out/checkpoints/step-1"
    exec sleep 600
fi
[ "$rank" = 0 ] || exit 0
echo "resumed from $out at epoch 1 step 3"
eval "echo weights hash $HASH"
END
own=$DTRAIN_BIN
export DTRAIN_BIN=$tmp/run
HASH=0123 must same 0
must [ "$(grep -c ': 0123$' "$tmp/said")" = 3 ]
HASH='$np' must same 1
must grep -q 'not the same bits' "$tmp/said"
HASH='' must same 1 # none is no hash
if [ -z "${ASAN_OPTIONS:-}" ]; then # eight sanitized ranks take too much memory
    DTRAIN_BIN=$own must same 0 --width-divisor 16 --precision fp32 --threads 1 --max-steps 60
    must [ "$(grep -c 'killed, continued at .*: [0-9a-f]\{32\}$' "$tmp/said")" = 3 ]
fi
finish
