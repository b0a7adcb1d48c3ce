#!/usr/bin/env bash
# A user whose language writes 2,5: numbers have a point in all that is printed, drawn and computed, by
# the program and by the scripts, which leave arithmetic to an awk that obeys the language (mawk does).
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
export DTRAIN_BIN OMPI_MCA_odls_base_sigkill_timeout=0

# a locale of this test's own, made of 128 characters and a comma
cp -r /usr/lib/locale/C.utf8 "$tmp/xx_XX" 2>/dev/null
{
    printf '<code_set_name> ASCII\n<escape_char> /\n<mb_cur_min> 1\n<mb_cur_max> 1\nCHARMAP\n'
    for ((i = 0; i < 128; i++)); do printf '<U%04X> /x%02x C%d\n' $i $i $i; done
    echo 'END CHARMAP'
} >"$tmp/map"
printf '%s\n' LC_NUMERIC 'decimal_point ","' 'thousands_sep "."' 'grouping 3;3' 'END LC_NUMERIC' >"$tmp/numbers"
localedef -c -f "$tmp/map" -i "$tmp/numbers" "$tmp/made" >"$tmp/said" 2>&1
must test -e "$tmp/made/LC_NUMERIC"
[ -d "$tmp/xx_XX" ] || cp -r "$tmp/made" "$tmp/xx_XX"
cp "$tmp/made/LC_NUMERIC" "$tmp/xx_XX"
comma=(env "LOCPATH=$tmp" LANG=xx_XX LC_ALL=xx_XX)
must test "$("${comma[@]}" bash -c 'printf %.1f 2,5')" = 2,5

# the program, and the gnuplot that it starts
accepts "${tiny[@]}" --max-steps 2 --out "$tmp/run"
while read -ra words; do
    "$DTRAIN_BIN" "${words[@]}" >"$tmp/point" 2>&1
    "${comma[@]}" "$DTRAIN_BIN" "${words[@]}" >"$tmp/other" 2>&1
    must cmp "$tmp/point" "$tmp/other"
    must test -s "$tmp/point" -o -s "$tmp/figure.gp"
done <<END
plan --net vgg11 --threads 3
runs $tmp/run
eval $tmp/run --threads 1
config --lr 0.25
plot $tmp/run --out $tmp/figure.gp
END
if command -v gnuplot >/dev/null; then
    must cmp <("$DTRAIN_BIN" plot "$tmp/run" 2>/dev/null) <("${comma[@]}" "$DTRAIN_BIN" plot "$tmp/run" 2>/dev/null)
    must "${comma[@]}" "$DTRAIN_BIN" plot "$tmp/run" --out "$tmp/b.svg"
    accepts plot "$tmp/run" --out "$tmp/a.svg"
    must cmp "$tmp/a.svg" "$tmp/b.svg"
    must cmp "$tmp/a.svg" <(gnuplot "$tmp/figure.gp")
fi

# the report of all parts of CS744's assignment
cd "$tmp" || exit 1
bounded "${comma[@]}" bash "$DTRAIN_SOURCE/scripts/tutorial/cs744" --data synthetic:64 --out parts --steps 2 "${tiny[@]:2:8}"
judge 0 "cs744"
first=$(grep -m 1 '"kind":"step"' parts/part1/metrics.jsonl | sed -nE 's/.*"loss":([0-9.]+),.*/\1/p')
must grep -q "^| 0 | $(printf %.4f "$first") | " parts/report.md
must test "$(grep -cE '^\| part.* [0-9]+,[0-9]|^\| part.* 0[.,]0000 ' parts/report.md)" = 0
must test "$(grep -cE '^\| part' parts/report.md)" = 6

# waits that grow
printf '#!/bin/sh\n[ "$1" != config ] || exec "%s" "$@"\nexit 70\n' "$DTRAIN_BIN" | program fails
gives 70 "${comma[@]}" bash "$DTRAIN_SOURCE/scripts/dtrain-run" --program "$tmp/fails" --ranks 1 --back-off 0.01 --max-stuck 2 \
    -- "${tiny[@]}" --out "$tmp/never"
must grep -q 'restart 2 of at most 100 in 0\.02 s' "$tmp/stderr"

# every script that computes so says whose numbers it means
for script in $(grep -rlE 'awk|%\.[0-9]+f|sort -[a-z]*[gn]' "$DTRAIN_SOURCE"/{scripts,proofs,bench,packaging,quickstart,runtests}); do
    [[ $(head -n 1 "$script") = '#!'*bash ]] || continue
    must grep -qE '(help\.bash|setup\.sh|(runs|hosts)\.bash|ranks\.sh)"?( |;|$)|^export LC_ALL=C' "$script"
done
finish
