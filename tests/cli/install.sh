#!/usr/bin/env bash
# cmake --install: a tree that may be moved, whose man page and completions have every command and option of
# the program, whose scripts find it, and which trains.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
built=$DTRAIN_BIN
must cmake --install "$DTRAIN_BUILD_DIR" --prefix "$tmp/first" >"$tmp/log"
mv "$tmp/first" "$tmp/it's here"
prefix="$tmp/it's here" share="$tmp/it's here/share"
cd "$tmp" || exit 1
export PATH=$prefix/bin:$PATH DTRAIN_BIN=$prefix/bin/dtrain

# ---- The table, and what is made of it: every option, however it is spelled, and every command ----
accepts help table
cp "$tmp/stdout" table
must test "$(cut -f 1 table | sort | uniq -c | awk '$1 > 5' | wc -l)" = 3
"$built" --help=all >help
options=$(grep -oE '^  --[^ =]+' help | sed 's/^ *//')
must test "$(wc -w <<<"$options")" -gt 60
commands=$(awk -F '\t' '$1 == "command" { print $2 }' table)
must test "$(wc -w <<<"$commands")" -gt 15

# ---- The man page ----
for page in dtrain dtrain-run dtrain-get-cifar10 dtrain-same-bits; do
    must gzip -t "$share/man/man1/$page.1.gz"
done
if command -v groff >/dev/null; then
    gzip -dc "$share/man/man1/dtrain.1.gz" | LC_ALL=C groff -ww -mandoc -Tascii -rLL=100n >page 2>warnings
    must test ! -s warnings
    sed -E 's/.\x08//g; s/\x1b\[[0-9;]*m//g' page >plain
    for option in $options $("$built" launch --help | grep -oE '^  --[a-z]+[a-z-]*'); do
        option=${option/\[no-\]/}
        must grep -qE -- "^ +$option\b" plain
    done
    for command in $commands; do must grep -qE "^ +$command( |$)" plain; done
    must grep -qE '^ +80 +memory or arithmetic' plain
else
    echo "SKIPPED: no groff here"
fi

# ---- bash ----
# completes WANT WORD...: the last word, as bash splits them, becomes just these
completes() {
    local want=$1
    shift
    # shellcheck disable=SC2016
    must test "$(bash -c '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _dtrain dtrain; echo "${COMPREPLY[*]}"' \
        "$share/bash-completion/completions/dtrain" "$@")" = "$want"
}
completes "plan plot" dtrain pl
completes "--momentum" dtrain --mom
completes "--label-smoothing" dtrain train --label
completes "--nesterov" dtrain --nest
completes "--no-nesterov" dtrain --np 2 --no-nes
completes "vgg11" dtrain --net = v
completes "vgg11" dtrain --net v
completes "constant step cosine onecycle triangle exponential" dtrain --schedule =
completes "--scaling" dtrain bench --scal # an option of its own
completes "" dtrain --net vgg11 --scal            # which a training refuses
completes "--tta" dtrain eval --tt
completes "--token-file" dtrain launch --tok
completes "ranktable" dtrain help ra
completes "" dtrain eval mod # a file: readline's
must bash -n "$share/bash-completion/completions/dtrain"

# ---- zsh ----
if command -v zsh >/dev/null; then
    must zsh -n "$share/zsh/site-functions/_dtrain"
    # presses KEYS WANT: a terminal in which they and Tab are pressed shows WANT
    cat >press <<'Z'
zmodload zsh/zpty
zpty shell "PS1='> ' TERM=dumb zsh -f -i"
zpty -w shell "fpath=(${(q)1} \$fpath); autoload -U compinit; compinit -u -D; cd /nonexistent; echo ready"
zpty -r -m shell line '*ready*ready*> '
zpty -w -n shell "$2"$'\t\t'
zpty -r -m shell line "*$3*"
Z
    presses() { must timeout 30 zsh -f press "$share/zsh/site-functions" "$1" "$2" >keys 2>&1 </dev/null; }
    presses "dtrain pl" "plot *-- RUN"
    presses "dtrain --mom" "--momentum="
    presses "dtrain --net=v" "--net=vgg11"
    presses "dtrain bench --predic" "--predict="
else
    echo "SKIPPED: no zsh here"
fi

# ---- Modules ----
modules=$(dpkg -L environment-modules 2>/dev/null | grep -m 1 '/modulecmd.tcl$')
if [ -n "$modules" ]; then
    (
        PATH=/usr/bin:/bin
        eval "$("$modules" bash use "$share/dtrain/modulefiles")"
        eval "$("$modules" bash load dtrain)"
        [ "$(command -v dtrain)" = "$prefix/bin/dtrain" ]
    ) || complain "module load dtrain"
else
    echo "SKIPPED: no environment-modules here"
fi

# ---- It works, from any folder, with nothing of the repository ----
cd "$tmp" && mkdir elsewhere && cd elsewhere || exit 1
few=(--width-divisor 16 --precision fp32 --threads 1)
accepts --config "$share/dtrain/configs/smoke.yaml" "${few[@]}" --max-steps 1 --out a
must test -s a/model.safetensors
for script in dtrain-run dtrain-get-cifar10 dtrain-same-bits; do
    must grep -q usage <("$script" --help)
done
gives 0 dtrain-run --ranks 2 "${tiny[@]}" --out b
equal "$(hashes b)" "$("$built" "${tiny[@]}" --shards 8 --out c >/dev/null 2>&1 && hashes c)"
find "$share" -name '*.yaml' -path '*configs*' | while read -r file; do
    "$DTRAIN_BIN" config --config "$file" >/dev/null || echo "$file"
done >refused
must test ! -s refused
must test -z "$(find "$prefix" -xtype l)" # no link leads nowhere
must test ! -e "$share/dtrain/scripts/fresh-machine"
finish
