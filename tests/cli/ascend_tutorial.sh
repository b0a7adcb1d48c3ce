#!/usr/bin/env bash
# docs/ascend-tutorial.md, and README's commands about shards: each command that stands on the page
# is run, in its order, and prints the lines that stand under it ("...": others may be between).
. "$DTRAIN_SOURCE/tests/support/cli.bash"
[ -z "${ASAN_OPTIONS:-}" ] || { echo "SKIPPED: eight sanitized ranks take too much memory"; exit 99; }
. "$DTRAIN_SOURCE/scripts/setup.sh"
export DTRAIN_BIN
here=$tmp/here
mkdir "$here"
ln -s "$DTRAIN_BIN" "$here/dtrain"
ln -s "$DTRAIN_SOURCE/scripts" "$DTRAIN_SOURCE/configs" "$here"

# run_command: $command, and the lines in $tmp/wanted, which come in this order
run_command() {
    local line
    [ -n "$command" ] || return 0
    (cd "$here" && timeout -k 2 "$limit" bash -c "$command") </dev/null >"$tmp/out" 2>"$tmp/stderr"
    code=$?
    cases=$((cases + 1))
    cat "$tmp/stderr" >>"$tmp/out"
    [ -s "$tmp/wanted" ] || [ "$code" = 0 ] || complain "$command"
    exec 3<"$tmp/out"
    while IFS= read -r want; do
        [ "$want" != ... ] || continue
        while line=; IFS= read -r line <&3 && [ "$line" != "$want" ]; do :; done
        [ "$line" = "$want" ] || { complain "$command: no line '$want'"; sed 's/^/  > /' "$tmp/out"; break; }
    done <"$tmp/wanted"
    exec 3<&-
    command=
}

# walk PAGE [HEADING]: the indented blocks that begin with "$ "
walk() {
    local line shown=${2:-yes}
    command=
    while IFS= read -r line; do
        case $line in
        "## "*) [ -z "${2:-}" ] || { [[ $line = "## $2"* ]] && shown=yes || shown=; } ;;&
        '    $ '*) run_command; command=${shown:+${line#"    \$ "}}; : >"$tmp/wanted" ;;
        '    '*) printf '%s\n' "${line#    }" >>"$tmp/wanted" ;;
        *) run_command ;;
        esac
    done <"$1"
    run_command
}
walk "$DTRAIN_SOURCE/docs/ascend-tutorial.md"
must test "$cases" -gt 25
walk "$DTRAIN_SOURCE/README.md" Shards:
must test "$cases" -gt 27
finish
