#!/usr/bin/env bash
# The run folder as a state machine: what may lie in it x how a run is started in it. A start is refused
# and changes nothing, or takes the newest valid checkpoint, or begins; and nothing valid is lost. Then
# what a rule on names cannot say: a folder in use, moved, removed, on a full disk, with links in it.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

said() { must grep -qF -- "$1" "$tmp/stderr"; }
sums() { (cd "$1" && find . -type f ! -name .lock ! -name progress -exec cksum {} + | sort -k 3); }
# step FOLDER N: its checkpoint, by the name that it has in $tmp/whole
step() { echo "$1/checkpoints/$(basename "$tmp"/whole/checkpoints/step-000000000"$2"*)"; }
spoil() { printf X | dd of="$1" bs=1 seek=300 conv=notrunc status=none; }

# ---- Every state, every start ---------------------------------------------------------------------

run=("${tiny[@]}" --max-steps 2 --save-every 1 --keep-last 9)
accepts "${run[@]}" --epochs 2 --out "$tmp/whole"
accepts "${run[@]}" --max-steps 3 --epochs 2 --out "$tmp/longer"
cp "$tmp/longer/model.safetensors" "$tmp/three"
echo precious >"$tmp/notes"

# make_state OPTIONS CHECKPOINTS MODEL FOREIGN: $tmp/run, of $tmp/whole's parts
make_state() {
    local run=$tmp/run
    rm -rf "$run"
    mkdir "$run"
    [ "$1" = - ] || cp "$tmp/whole/options.yaml" "$tmp/whole/metrics.jsonl" "$run"
    [ "$3" = - ] || cp "$tmp/whole/model.safetensors" "$run"
    [ "$4" = - ] || cp "$tmp/notes" "$run"
    case $2 in
    tmp) mkdir -p "$run/checkpoints/.tmp-step-0000000001" ;;
    lost) ln -s "$tmp/unmounted" "$run/checkpoints" ;;
    file) : >"$run/checkpoints" ;;
    two | torn | none_valid) cp -r "$tmp/whole/checkpoints" "$run" ;;
    esac
    [[ $2 != torn && $2 != none_valid ]] || spoil "$(step "$run" 2)/momentum.safetensors"
    [ "$2" != none_valid ] || spoil "$(step "$run" 1)/model.safetensors"
}

# expect OPTIONS CHECKPOINTS MODEL FOREIGN START: the rule: sets $want, an exit code, and $from, the step
# that is resumed from
expect() {
    want=73 from=
    case $5 in
    never) [ "$1$2$3$4" != ---- ] || want=0 ;;
    auto)
        case $1:$2:$3 in
        options:two:*) want=0 from=2 ;;
        options:torn:*) want=0 from=1 ;;
        options:none_valid:*) want=65 ;;
        options:lost:* | options:file:*) want=74 ;;
        options:*:-) want=0 ;;
        -:-:-) [ "$4" != - ] || want=0 ;;
        esac
        ;;
    2) [ "$1" = - ] || want=0 from=2 ;;
    esac
}

for options in - options; do
    for checkpoints in - tmp two torn none_valid lost file; do
        for model in - model; do
            for foreign in - notes; do
                for start in never auto 1 2; do
                    [[ $start != [12] || $checkpoints = two ]] || continue
                    state="$options $checkpoints $model $foreign"
                    # shellcheck disable=SC2086
                    { make_state $state && expect $state "$start"; }
                    was=$(sums "$tmp/run")
                    resume=$start
                    [[ $start != [12] ]] || resume=$(step "$tmp/run" "$start")
                    launch 1 "${run[@]}" --max-steps 3 --epochs 2 --out "$tmp/run" --resume "$resume"
                    exits "$want" "$state, --resume $start"
                    now=$(sums "$tmp/run")
                    if [ "$code" != 0 ]; then
                        equal "$was." "$now."
                        continue
                    fi
                    [ -z "$from" ] || said "resumed from $(step "$tmp/run" "$from")"
                    # nothing valid is lost but what a run adds to or ends with
                    kept=$(grep -vE ' \./(metrics.jsonl|options.yaml|model.safetensors)$' <<<"$was")
                    [ "$checkpoints" = two ] || kept=$(grep -v step-0000000002 <<<"$kept")
                    must test -z "$(comm -23 <(sort <<<"$kept") <(sort <<<"$now"))"
                    must test "$(records "$tmp/run" step)" = 3
                    must cmp "$tmp/run/model.safetensors" "$tmp/three"
                    # verify and --resume auto name the same checkpoint
                    if [ "$start" = auto ] && [ -n "$from" ]; then
                        # shellcheck disable=SC2086
                        make_state $state
                        launch 1 verify "$tmp/run"
                        must grep -m 1 "^ok .*/checkpoints/" "$tmp/stdout" | grep -qF "$(step "$tmp/run" "$from")"
                    fi
                done
            done
        done
    done
done

# ---- A path, and another folder ------------------------------------------------------------------

make_state options two model -
was=$(sums "$tmp/run")
refuses 73 "begin a new run folder with --out NEW" -- --resume "$(step "$tmp/run" 1)" --threads 1
accepts --resume "$(step "$tmp/run" 1)" --out "$tmp/new" --threads 1 --max-steps 3
said "resumed from $(step "$tmp/run" 1)"
must cmp "$tmp/three" "$tmp/new/model.safetensors"
must test "$(records "$tmp/new" step)" = 2
equal "$was" "$(sums "$tmp/run")"
accepts verify "$tmp/new"

# in the way
: >"$tmp/file"
refuses 73 "$tmp/file" -- "${tiny[@]}" --out "$tmp/file"
refuses 73 "$tmp/file/below" -- "${tiny[@]}" --out "$tmp/file/below"
refuses 73 "characters" -- "${tiny[@]}" --out "$(printf %05000d 0)"
refuses 73 /proc/dtrain -- "${tiny[@]}" --out /proc/dtrain
refuses 73 "run folder / is not empty" -- "${tiny[@]}" --out /
ln -s "$tmp/unmounted" "$tmp/away"
refuses 73 "run folder $tmp/away is a link" "mount its disk" -- "${run[@]}" --out "$tmp/away" --resume auto

# ---- Two runs, and what others do to the folder of one ---------------------------------------------

# busy FOLDER: a run that lasts until it is killed
busy() {
    start 1 "${tiny[@]}" --max-steps -1 --epochs 1000000 --save-every 4 --keep-last 2 --out "$1"
    must soon has_checkpoint "$1"
}
busy "$tmp/busy"
echo mine >"$tmp/busy/lock" # a name like any other
for resume in never auto "$tmp/busy"; do
    gives 73 "$DTRAIN_BIN" "${tiny[@]}" --out "$tmp/busy" --resume "$resume"
done
mv "$tmp/busy" "$tmp/moved"
gives 73 "$DTRAIN_BIN" "${tiny[@]}" --out "$tmp/moved" --resume auto
said "in use by another run, which 'dtrain status $tmp/moved' shows"
accepts "${tiny[@]}" --out "$tmp/busy" # the name is free
job_kill
accepts --out "$tmp/moved" --resume auto --threads 1 --epochs 1000000 --max-steps "$(records "$tmp/moved" step)"
accepts verify "$tmp/moved"
must test "$(cat "$tmp/moved/lock")" = mine

# a folder that is moved is the run's still
start 1 "${tiny[@]}" --epochs 1000 --max-steps 60 --save-every 4 --out "$tmp/xa"
must soon has_checkpoint "$tmp/xa"
mv "$tmp/xa" "$tmp/xb"
job_ends 0
accepts verify "$tmp/xb"
must test "$(records "$tmp/xb" step)" = 60
must test ! -e "$tmp/xa"

# one that is removed is a disk that fails: as --on-save-error says
for mode in stop continue; do
    start 1 "${tiny[@]}" --epochs 1000 --max-steps 200 --save-every 4 --on-save-error $mode --out "$tmp/removed"
    must soon has_checkpoint "$tmp/removed"
    until rm -rf "$tmp/removed" 2>/dev/null; do :; done
    job_ends "73|74"
    must test ! -e "$tmp/removed"
done

# ---- Links lead no write outside ------------------------------------------------------------------

# Named like each file of a run: a symbolic link is refused or replaced, a hard link parted with.
for name in options.yaml metrics.jsonl model.safetensors .lock lock .options.yaml options.yaml.tmp \
    model.safetensors.tmp checkpoints/.tmp-step-0000000003/MANIFEST; do
    for link in -s ""; do
        make_state options two - -
        mkdir -p "$(dirname "$tmp/run/$name")"
        if [ -e "$tmp/run/$name" ]; then mv "$tmp/run/$name" "$tmp/outside"; else echo mine >"$tmp/outside"; fi
        was=$(cksum <"$tmp/outside")
        # shellcheck disable=SC2086
        ln $link "$tmp/outside" "$tmp/run/$name"
        launch 1 "${run[@]}" --max-steps 3 --epochs 2 --out "$tmp/run" --resume auto
        exits "0|73" "a link ($link) named $name"
        must test "$(cksum <"$tmp/outside")" = "$was"
        rm -f "$tmp/outside"
    done
done
# and a folder of checkpoints may lie on another disk
make_state options two - -
mv "$tmp/run/checkpoints" "$tmp/scratch"
ln -s "$tmp/scratch" "$tmp/run/checkpoints"
accepts "${run[@]}" --max-steps 3 --epochs 2 --out "$tmp/run" --resume auto
must has_checkpoint "$tmp/run" 3
accepts "${run[@]}" --max-steps 4 --epochs 2 --resume "$(compgen -G "$tmp/run/checkpoints/step-*3*")"
must has_checkpoint "$tmp/run" 4

# ---- A full disk ---------------------------------------------------------------------------------

# first as a limit on the size of files: 37 MB of model, 16 MiB allowed
(
    ulimit -f 16384
    launch 1 --data synthetic:64 --net vgg11 --batch 4 --precision fp32 --threads 1 \
        --max-steps 0 --out "$tmp/large"
    judge "71|74" "limit on file size" "$tmp/large" "File too large"
    exit "$bad"
) || bad=1
must test ! -e "$tmp/large/model.safetensors"
must test -z "$(find "$tmp/large" -size +1M)"
# then as a small file system, where this user may mount one
mkdir "$tmp/small"
if mount -t tmpfs -o size=64k none "$tmp/small" 2>/dev/null; then
    for np in $ranks; do
        launch "$np" "${tiny[@]}" --out "$tmp/small/run$np"
        judge 74 "np $np: full disk" "$tmp/small/run$np"
        must test ! -e "$tmp/small/run$np/model.safetensors"
        rm -rf "$tmp/small/run$np"
    done
    head -c 1M /dev/zero >"$tmp/small/full" 2>/dev/null # not a byte left
    refuses 74 "make room" -- "${tiny[@]}" --out "$tmp/small/run"
    umount "$tmp/small"
    must mount -t tmpfs -o size=32m none "$tmp/small" # of 20 epochs' checkpoints it has no room
    accepts "${tiny[@]}" --epochs 20 --max-steps -1 --keep-every epoch --out "$tmp/small/run"
    said "keep fewer"
    umount "$tmp/small"
    must mount -t tmpfs -o size=0 none "$tmp/small" # as much as there is, of which it says nothing
    accepts "${tiny[@]}" --out "$tmp/small/run"
    umount "$tmp/small"
else
    echo "SKIPPED: a full disk: no rights to mount one"
fi
finish
