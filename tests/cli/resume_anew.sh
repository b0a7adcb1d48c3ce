#!/usr/bin/env bash
# --resume auto where there is no checkpoint to go on from: the run begins anew without a person,
# and what an older one has left is put aside.
set -u
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

run=("${tiny[@]}" --max-steps -1 --epochs 2)
said() { must grep -qF -- "$1" "$tmp/stderr"; }
put_aside() { said "run folder $1: what an older run has left is in its folder $2 now: $3"; }
sums() { (cd "$1" && find . -type f ! -name progress -exec cksum {} + | sort -k 3); }

# finished, without checkpoints
accepts "${run[@]}" --save-every 0 --out "$tmp/done"
was=$(sums "$tmp/done")
accepts "${run[@]}" --save-every 0 --lr 0.5 --out "$tmp/done" --resume auto
put_aside "$tmp/done" .undone-1 "model.safetensors, metrics.jsonl"
equal "$was" "$(sums "$tmp/done/.undone-1")"
must grep -qx "lr: 0.5" "$tmp/done/options.yaml"
must test "$(wc -l <"$tmp/done/metrics.jsonl")" = 7 # 4 steps, 2 epochs, the end
second=$(sums "$tmp/done" | grep -v undone)
accepts --out "$tmp/done" --resume auto --threads 1 --max-steps 1
put_aside "$tmp/done" .undone-2 "model.safetensors, metrics.jsonl"
equal "$was" "$(sums "$tmp/done/.undone-1")"
equal "$second" "$(sums "$tmp/done/.undone-2")"
accepts verify "$tmp/done/.undone-1"

# somebody's own files beside the options
mkdir -p "$tmp/mine/checkpoints"
for file in options.yaml model.safetensors metrics.jsonl checkpoints/step-0000000001; do
    echo "# my $file" >"$tmp/mine/$file"
done
cat "$tmp/done/options.yaml" >>"$tmp/mine/options.yaml" # else it counts as cut
was=$(sums "$tmp/mine")
accepts "${run[@]}" --save-every 1 --out "$tmp/mine" --resume auto
put_aside "$tmp/mine" .undone-1 "checkpoints, model.safetensors, metrics.jsonl"
equal "$was" "$(sums "$tmp/mine/.undone-1")"
accepts verify "$tmp/mine"

# only MANIFEST is lost, of all
accepts "${run[@]}" --save-every 2 --out "$tmp/lost"
rm "$tmp"/lost/checkpoints/step-*/MANIFEST
was=$(sums "$tmp/lost")
accepts "${run[@]}" --save-every 2 --out "$tmp/lost" --resume auto
put_aside "$tmp/lost" .undone-1 "checkpoints, model.safetensors, metrics.jsonl"
equal "$was" "$(sums "$tmp/lost/.undone-1")"

# killed before its first checkpoint, a save under way: its few lines are kept, not the remains
accepts "${run[@]}" --save-every 0 --out "$tmp/early"
rm "$tmp/early/model.safetensors"
mkdir -p "$tmp/early/checkpoints/.tmp-step-0000000001"
accepts "${run[@]}" --save-every 1 --out "$tmp/early" --resume auto
put_aside "$tmp/early" .undone-1 "metrics.jsonl"
must test -z "$(find "$tmp/early" -name '.tmp-*')"
# and before its first step: nothing is
for keep in options.yaml .options.yaml; do
    mkdir "$tmp/first"
    cp "$tmp/early/options.yaml" "$tmp/first/$keep"
    : >"$tmp/first/metrics.jsonl"
    accepts "${run[@]}" --out "$tmp/first" --resume auto
    must test "$(find "$tmp/first" -name '.undone*' | wc -l)" = 0
    must test "$(grep -c warning "$tmp/stderr")" = 0
    rm -r "$tmp/first"
done

# a link would lead the new run's checkpoints elsewhere, or back: refused, nothing changed
cp -r "$tmp/lost/.undone-1" "$tmp/linked"
mv "$tmp/linked/checkpoints" "$tmp/scratch"
ln -s "$tmp/scratch" "$tmp/linked/checkpoints"
must find "$tmp/linked" "$tmp/scratch" -name 'model*' -exec touch -d '1 hour ago' {} +
was=$(sums "$tmp/linked")
ranks=1
refuses 73 "$tmp/linked/checkpoints is a link" "move it away" -- "${run[@]}" --out "$tmp/linked" --resume auto
equal "$was" "$(sums "$tmp/linked")"

# what cannot be looked into may hold checkpoints, as on a disk that is not mounted: nothing
# begins anew, nothing changes, and the run is not called whole
accepts "${run[@]}" --save-every 1 --out "$tmp/away"
must find "$tmp/away" -name 'model*' -exec touch -d '1 hour ago' {} +
mv "$tmp/away/checkpoints" "$tmp/disk"
# away TEXT: for everybody who reads the run
away() {
    local was
    was=$(sums "$tmp/away")
    refuses 74 "$tmp/away/checkpoints" "$1" -- "${run[@]}" --out "$tmp/away" --resume auto
    equal "$was" "$(sums "$tmp/away")"
    refuses 74 "$tmp/away/checkpoints" "$1" -- --out "$tmp/from" --resume "$tmp/away"
    refuses 74 "$tmp/away/checkpoints" "$1" -- eval --data synthetic:64 --model "$tmp/away"
    refuses 74 "$tmp/away/checkpoints" "$1" -- verify "$tmp/away"
    must grep -q '^ok .*model.safetensors' "$tmp/stdout"
    rm "$tmp/away/checkpoints"
}
for target in "$tmp/unmounted" "$tmp/unmounted/of/another"; do
    ln -s "$target" "$tmp/away/checkpoints"
    away "is a link, and what it leads to is missing; mount its disk"
done
ln -s checkpoints "$tmp/away/checkpoints"
away "Too many levels of symbolic links; it must be a folder"
: >"$tmp/away/checkpoints"
away "Not a directory; it must be a folder that can be read"
mkfifo "$tmp/away/checkpoints"
away "Not a directory; it must be a folder that can be read"
# one of them alone
mkdir "$tmp/away/checkpoints"
ln -s "$tmp/unmounted" "$tmp/away/checkpoints/step-0000000004"
refuses 74 "step-0000000004 is a link, and what it leads to is missing" "it may be whole" -- \
    "${run[@]}" --out "$tmp/away" --resume auto
# the disk is there again
rm -r "$tmp/away/checkpoints"
ln -s "$tmp/disk" "$tmp/away/checkpoints"
accepts "${run[@]}" --out "$tmp/away" --resume auto
said "resumed from $tmp/away/checkpoints/step-0000000004"
# the run folder itself
ln -s "$tmp/unmounted" "$tmp/whole"
refuses 73 "run folder $tmp/whole is a link" "mount its disk" -- "${run[@]}" --out "$tmp/whole" --resume auto

finish
