#!/usr/bin/env bash
# dtrain launch and dtrain ranktable: what mpirun is told, which hosts and rank tables are taken, and
# that a run which they start is the run that mpirun starts.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
unset GOMP_SPINCOUNT # as users start it: it starts itself once more
ranks=1 # they need none
unset "${!OMPI_MCA_oob_tcp_keepalive_@}" # what scripts/setup.sh says already is not shown

# shows TEXT... -- ARGS...: the line that would be started has each TEXT
shows() {
    local texts=()
    take_words texts "$@" && shift "$taken"
    accepts_on 1 launch --dry-run "$@"
    for text in "${texts[@]}"; do
        must grep -qF -- "$text" "$tmp/stdout"
    done
}
to=--host # Hydra's words are seen in unit_launch_words, too
[ $launched_by = openmpi ] || to=-hosts
shows "mpirun $to a:8,b:8 -np 16 " " $DTRAIN_BIN --net vgg11" -- --hosts a:8,b:8 --net vgg11
shows "$to a:8,b:4 -np 12 " -- --hosts=a:8,b --nproc-per-node=4
shows "$to a:8,b:4 -np 3 " -- --hosts a:8,b:4 --np 3
shows "mpirun -np 5 " -- --np 5
shows "mpirun -np 7 " -- --nproc-per-node 7
shows "bench --net 'a b' --out 'it'\\''s' --hosts x" -- --hosts a bench --net "a b" --out "it's" -- --hosts x
printf '# 主机，2\na slots=2\n\nb slots=3\n' >"$tmp/hosts"
if only_openmpi "words of its own"; then
    shows "OMPI_MCA_oob_tcp_if_include='\$(id)' " "OMPI_MCA_plm_rsh_agent='/bin/x y' " -- --hosts a --interface '$(id)' --agent "/bin/x y"
    DTRAIN_LR=0.5 shows "-x DTRAIN_LR=0.5 " -- --hosts a,b
    shows "OMPI_MCA_btl_tcp_if_include=eth7 " "PRTE_MCA_prte_if_include=eth7 " "OMPI_MCA_plm_rsh_agent=/bin/x " \
        "OMPI_MCA_oob_tcp_keepalive_time=5 " -- --hosts a,b --interface eth7 --agent /bin/x
    shows "mpirun --hostfile $tmp/hosts -x " -- --hostfile "$tmp/hosts"
    shows "mpirun --hostfile $tmp/hosts -np 2 " -- --hostfile "$tmp/hosts" --np 2
fi
for n in 2 8 16; do
    accepts ranktable "$DTRAIN_SOURCE/configs/ranktables/$n.json"
    must grep -q ": $n ranks on " "$tmp/stdout"
    shows " -np $n " -- --rank-table "$DTRAIN_SOURCE/configs/ranktables/$n.json"
done
accepts launch --help
must grep -q -- "--rank-table FILE" "$tmp/stdout"

echo "a token of twenty letters" >"$tmp/token"
chmod 600 "$tmp/token"
# the token is not passed on, whether it is used or not; what launch starts here is not mpirun
printf '#!/bin/sh\nenv\necho "$@"\n' | program "$tmp/path/mpirun"
export DTRAIN_TOKEN="never told to anybody"
for words in "--np 2" "--hosts a,b" "--hostfile $tmp/hosts" "--nnodes 1"; do
    for dry in "" --dry-run; do
        # shellcheck disable=SC2086
        DTRAIN_LR=0.5 PATH=$tmp/path:$PATH accepts launch $words $dry
        [ -n "$dry" ] && [ $launched_by = hydra ] || must grep -q DTRAIN_LR "$tmp/stdout"
        must test "$(grep -c "TOKEN\|never told" "$tmp/stdout")" = 0
    done
done
accepts config
must test "$(grep -c TOKEN "$tmp/stderr")" = 0
unset DTRAIN_TOKEN
# hosts that are none
for list in "" a: a:0 a:x a:8x a:99999 a,,b "a b" -x "a;reboot" "a:8," "$(printf 'a\nb')"; do
    refuses 64 "" -- launch --dry-run --hosts "$list"
done
refuses 64 "one of them" -- launch --dry-run --hosts a --hostfile "$tmp/hosts"
refuses 64 "--dry-run" -- launch --dry-run --nnodes 2 --node-rank 0 --master a:1 --token-file "$tmp/token"
refuses 64 "--node-rank" -- launch --nnodes 2 --node-rank 2 --master a:1
refuses 64 "--master" -- launch --nnodes 2 --node-rank 1
# shellcheck disable=SC2086
for word in "--nnodes 2" "--node-rank 0" "--master a:1" "--token-file $tmp/token"; do
    refuses 64 "${word% *}" "leave them out" -- launch $word --hosts a,b
    refuses 64 "--nnodes N (or NNODES)" -- launch $word --nnodes 0 "${tiny[@]}" --out "$tmp/never"
    [ "$word" = "--nnodes 2" ] && continue
    refuses 64 "${word% *}" "--nnodes N (or NNODES)" -- launch $word "${tiny[@]}" --out "$tmp/never"
done
refuses 64 "--node-rank K (or NODE_RANK)" -- launch --nnodes 2 --master a:1 --token-file "$tmp/token"
refuses 64 "--node-rank" "'1'" -- launch --nnodes 1 --node-rank 1 --dry-run
MASTER_ADDR=a MASTER_PORT=1 NODE_RANK=3 shows "mpirun -np 2 " -- --np 2
shows "mpirun -np 2 " -- --np 2 --nnodes 1 --node-rank 0 --master a:1
if only_openmpi "hosts without ssh"; then
    refuses 64 "a common secret" -- launch --nnodes 2 --node-rank 0 --master 127.0.0.1:1
    refuses 64 "is not HOST:PORT" -- launch --nnodes 2 --node-rank 0 --master a --token-file "$tmp/token"
    refuses 66 "$tmp: is a folder" -- launch --nnodes 2 --node-rank 0 --master a:1 --token-file "$tmp"
    for address in 127.0.0.1 127.0.1.1 localhost 0.0.0.0; do # all hosts have these: each would look for host 0 on itself
        for k in 0 1; do
            refuses 64 "--master $address:1 is " "no other host reaches" -- launch --nnodes 2 --node-rank $k --master $address:1 --token-file "$tmp/token"
        done
    done
    refuses 71 "cannot wait there" -- launch --nnodes 2 --node-rank 0 --master 192.0.2.7:29500 --token-file "$tmp/token"
    chmod 644 "$tmp/token"
    refuses 78 "chmod 600" -- launch --nnodes 2 --node-rank 0 --master a:1 --token-file "$tmp/token"
else
    refuses 78 "--nnodes needs Open MPI" -- launch --nnodes 2 --node-rank 0 --master a:1 --token-file "$tmp/token"
fi
refuses 64 "--np" "'0'" -- launch --dry-run --np 0
refuses 66 "$tmp/no-file" -- launch --dry-run --hostfile "$tmp/no-file"
refuses 64 "slots=N" -- launch --dry-run --hostfile "$tmp/hosts" --nproc-per-node 2
for line in "a slots=0" "a slots=99999999999" "a slots=x" "-oProxyCommand=x" "$(printf 'a%.0s' {1..2000})"; do
    printf 'a slots=2\n%s\n' "$line" >"$tmp/bad"
    refuses 78 "$tmp/bad:2: not a line of a hostfile" -- launch --dry-run --hostfile "$tmp/bad"
done
head -c 5000000 /dev/zero | tr '\0' '\n' >"$tmp/bad"
refuses 78 "at most" -- ranktable "$tmp/bad"
mkfifo "$tmp/fifo"
# shellcheck disable=SC2086
for word in "launch --dry-run --hostfile" "launch --dry-run --rank-table" ranktable; do
    refuses 66 "$tmp/fifo: is a pipe, socket or device" -- $word "$tmp/fifo"
    refuses 66 "$tmp: is a folder" -- $word "$tmp"
done
# files that an editor on Windows saved
for line in "$(printf 'a slots=2\r')" "$(printf '\357\273\277a slots=2')"; do
    printf '%s\n' "$line" >"$tmp/bad"
    refuses 78 "$tmp/bad:1: not a line of a hostfile" "no CR/BOM" -- launch --dry-run --hostfile "$tmp/bad"
done
refuses 64 "users belong into ~/.ssh/config" -- launch --dry-run --hosts me@a:8
refuses 64 "no IPv6" -- launch --dry-run --hosts fe80::1
bounded env PATH=/nowhere "$DTRAIN_BIN" launch --np 2
judge 66 "no mpirun" "cannot start mpirun" "openmpi-bin"

# of mpirun's words those that repeat a rank's are left out; where no rank has said anything, they stand
program "$tmp/blocks/mpirun" <<'END'
#!/bin/sh
ruler=----------------------------------------------------------------------
printf '%s' "$SAYS" >&2
printf '%s\n' $ruler "mpirun detected that a process exited with non-zero status" $ruler >&2
exit 98
END
while IFS='|' read -r says shown; do
    SAYS=${says:+$says
} PATH=$tmp/blocks:$PATH gives 98 "$DTRAIN_BIN" launch --np 2
    must test "$(grep -c "mpirun detected" "$tmp/stderr")" = "$shown"
    [ -z "$says" ] || must grep -qxF -- "$says" "$tmp/stderr"
done <<'END'
|1
dtrain: runs/non-zero: a rank's own words|0
END

# a signal reaches the run though libraries have threads of their own, and its code comes back
start 1 launch --np 2 "${tiny[@]}" --max-steps -1 --epochs 100000 --out "$tmp/asked"
must within has_records "$tmp/asked" step 1
kill -USR1 "$job"
job_ends 75
must grep -q "stopped by SIGUSR1 after step" "$tmp/stderr"

# rank tables
bash "$DTRAIN_SOURCE/scripts/tutorial/ranktable" a:4,b:4 >"$tmp/good"
accepts ranktable "$tmp/good"
{ printf '\357\273\277' && sed 's/$/\r/' "$tmp/good"; } >"$tmp/table"
accepts ranktable "$tmp/table"
# spoils TEXT SED: the table with this change is refused, with file, place and value
spoils() {
    sed -E "$2" "$tmp/good" >"$tmp/table"
    if cmp -s "$tmp/good" "$tmp/table"; then code=- && complain "nothing was changed by $2"; fi
    refuses 78 "$tmp/table:" "$1" -- ranktable "$tmp/table"
}
while IFS='|' read -r text change; do
    spoils "$text" "$change"
done <<'END'
version '1.1' and status 'completed', not 1.0 and completed|s/"1.0"/"1.1"/
Expected string, got real|s/"1.0"/1.0/
not found: version|/version/d
server_count is '3', but server_list has 2|s/"server_count": "2"/"server_count": "3"/
version '1.0' and status 'pending', not 1.0 and completed|s/completed/pending/
server_list[0]: rank_id is '5', expected '0'|s/"rank_id": "0"/"rank_id": "5"/
server_list[0]: rank_id is 'one', expected '1'|s/"rank_id": "1"/"rank_id": "one"/
server_list[1]: server_id 'Z' stands after 'a': servers stand in lexical order|s/"server_id": "b"/"server_id": "Z"/
server_list[1]: server_id 'a' stands after 'a'|s/"server_id": "b"/"server_id": "a"/
server_list[0]: 'device' of 'a' is not a list of 1, 2, 4 or 8|8d
server_list[0]: server_id '10.*.*.*' is a placeholder: replace it by this host's address|s/"server_id": "a"/"server_id": "10.*.*.*"/
server_list[0]: '-a' is not a host name|s/"server_id": "a"/"server_id": "-a"/
the device of rank 1: Object item not found: rank_id|s/, "rank_id": "1"//
END
sed '$d' "$tmp/good" >"$tmp/table"
refuses 78 "$tmp/table:27:" "not JSON" -- ranktable "$tmp/table"
for text in '[]' '{}' 'null' '{"version":"1.0"}' '' "$(printf '\377')"; do
    printf '%s' "$text" >"$tmp/table"
    refuses 78 "$tmp/table" -- ranktable "$tmp/table"
done
refuses 66 "$tmp/no-table" -- ranktable "$tmp/no-table"
refuses 64 "usage" -- ranktable
accepts ranktable --help
must grep -q "^Usage: dtrain ranktable FILE" "$tmp/stdout"
refuses 64 "usage" -- ranktable "$tmp/good" more

# mpirun of Open MPI 5.0.7 ends with 0 when it has lost a host: what it says decides
program "$tmp/lost/mpirun" <<'END'
#!/bin/sh
printf '%s' "PRTE has lost communi" >&2
sleep 0.2
echo "$SAYS" >&2
exit "$CODE"
END
while IFS='|' read -r ends says want; do
    CODE=$ends SAYS=$says PATH=$tmp/lost:$PATH gives "$want" "$DTRAIN_BIN" launch --hosts a,b
    must grep -qF "PRTE has lost communi$says" "$tmp/stderr"
done <<'END'
0|cation with a remote daemon.|71
205|cation with a remote daemon.|205
0|cation with a remote dentist|0
END

# the same run
accepts "${tiny[@]}" --out "$tmp/alone"
accepts launch --np 2 "${tiny[@]}" --out "$tmp/launched"
must test -n "$(hashes "$tmp/alone")"
equal "$(hashes "$tmp/alone")" "$(hashes "$tmp/launched")"
refuses 64 "unknown option '--nett'" -- launch --np 2 --nett x
finish
