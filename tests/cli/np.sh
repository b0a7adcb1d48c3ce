#!/usr/bin/env bash
# dtrain --np N: it starts its ranks by itself, stops them with a checkpoint at INT, TERM and HUP, at any
# moment, at once at a second one, and stands still with them at Ctrl-Z.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
unset GOMP_SPINCOUNT # as users start it: it starts itself once more
unset "${!OMPI_MCA_@}" "${!PRTE_MCA_@}" "${!OMPI_ALLOW_@}" # it says all that mpirun has to know
ranks=1
set -m # else a background process of a script ignores INT
steps=120 # they last until a signal comes
[ -z "${ASAN_OPTIONS:-}" ] || steps=20
run=("${tiny[@]}" --epochs 1000 --max-steps $steps --save-every 0)
begin() { # FOLDER ARGS...: on two ranks, anew; $job
    rm -rf "$1"
    start 1 --np 2 "${run[@]}" "${@:2}" --out "$1"
}
find_pids() { # pids[]: of both ranks
    pids=($(ranks_of "$(pgrep -P "$job" "$launcher" || echo 0)"))
    [ ${#pids[@]} = 2 ]
}
said() { must grep -qE -- "$1" "$tmp/stderr"; }

accepts "${run[@]}" --out "$tmp/calm"
accepts --np=2 "${run[@]}" --out "$tmp/np"
equal "$(hashes "$tmp/calm")" "$(hashes "$tmp/np")"
must grep -q "2 ranks x 1 thread" "$tmp/stdout"
accepts env --np 2
must grep -q "ranks  *2" "$tmp/stdout"
bounded env -u HOME "$DTRAIN_BIN" --np 2 env # Open MPI 5 does not start without
judge 0 "without HOME"
accepts eval --np 2 --help
must grep -q "^Usage: dtrain eval " "$tmp/stdout"
accepts launch --dry_run --np 3 bench --net vgg11
must grep -q -- "-np 3 .* bench --net vgg11" "$tmp/stdout"
accepts --np 2 "${run[@]}" --dry-run
must grep -qE "^dry run +a step takes" "$tmp/stdout"
(. "$DTRAIN_SOURCE/scripts/setup.sh" && ranks=2 && refuses 64 "give the number to mpirun" -- --np 2; exit $bad) || bad=1
# one message, dtrain's: mpirun repeats none
refuses 64 "--lr" "fast" -- --np 2 --lr fast
must test "$(without_mpirun | wc -l)" = 1

# stopped SIGNAL MOMENT: a command that succeeds once the moment has come
stopped() {
    begin "$tmp/run"
    must soon eval "$2"
    pids=()
    [ "$2" = ready ] || { must find_pids && hold_all STOP; } # else it may be over before
    kill "-$1" "$job"
    must soon grep -q "^dtrain: SIG$1: " "$tmp/stderr"
    [ ${#pids[@]} = 0 ] || hold_all CONT
    job_ends 75
    must test "$(grep -c "^dtrain: stopped by SIG$1 " "$tmp/stderr")" -ge 1
    must test "$(grep -cE "mpirun|prterun" "$tmp/stderr")" = 0
    accepts --np 2 "${run[@]}" --out "$tmp/run" --resume auto --shards 8
    equal "$(hashes "$tmp/calm")" "$(hashes "$tmp/run")"
}
hold_all() { kill "-$1" "${pids[@]}"; }
ready() { catches "$job" 2; }
stopped INT ready
stopped INT "has_records $tmp/run step 1"
said "^resumed from $tmp/run/checkpoints/step-"
stopped TERM "has_records $tmp/run step 1"
ignored=$(sed -n 's/^SigIgn:\t//p' /proc/self/status)
if ((0x$ignored & 1)); then
    echo "SKIPPED: HUP: this test runs under nohup"
else
    stopped HUP "has_records $tmp/run step 1"
fi

run=("${tiny[@]}" --epochs 100000 --max-steps -1 --save-every 0) # these do not end by themselves
ask_held() { # begin, and INT to ranks that stand still
    begin "$tmp/run"
    must soon has_records "$tmp/run" step 1
    must find_pids
    hold_all STOP
    kill -INT "$job"
    must soon grep -q "^dtrain: SIGINT: " "$tmp/stderr"
}
# a second one ends it at once
ask_held
kill -HUP "$job" # a closed terminal ends nothing, however often it is said
sleep 1.2
kill -HUP "$job"
kill -INT "$job"
job_ends 130
said "ended by a second signal"
for pid in "${pids[@]}"; do must within gone "$pid"; done

# ranks that threads of mpirun start, as Open MPI's do from 32 on, are seen: they began, so a kill is one
export OMPI_MCA_odls_base_num_threads=1 PRTE_MCA_odls_base_num_threads=1
ask_held
echo "said after it looked" >"/proc/$(pgrep -P "$job" "$launcher")/fd/2"
must soon grep -q "^said after" "$tmp/stderr"
hold_all KILL
job_ends 137

# Ctrl-Z, and fg
begin "$tmp/run"
must soon has_records "$tmp/run" step 1
kill -TSTP "$job"
state() { [ "$(cut -d ' ' -f 3 "/proc/$1/stat")" = "$2" ]; }
must find_pids
for pid in "$job" "${pids[@]}"; do must soon state "$pid" T; done
kill -CONT "$job"
before=$(records "$tmp/run" step)
must soon has_records "$tmp/run" step $((before + 2))
kill -INT "$job"
job_ends 75

# a third signal kills an mpirun that hears none; Hydra, whose ranks end by nothing less, the second
signals="1 2 3"
[ $launched_by = openmpi ] || signals="1 2"
printf '#!/bin/sh\ntrap "" TERM USR1\ntouch "%s"\nexec sleep 60\n' "$tmp/deaf/there" | program "$tmp/deaf/mpirun"
PATH=$tmp/deaf:$PATH start 1 --np 2 "${run[@]}"
must soon test -e "$tmp/deaf/there"
for _ in $signals; do
    must test -d "/proc/$job"
    kill -INT "$job"
    sleep 1.2
done
must within gone "$job"
job_ends 130

# mpirun that is told to stop while it starts other hosts' daemons ends with 0, as if a run were complete:
# it is where a rank says so
printf '#!/bin/sh\ntrap "[ -z \\"$SAYS\\" ] || echo \\"$SAYS\\" >&2; exit 0" USR1\ntouch "%s"\n' "$tmp/deaf/here" >"$tmp/deaf/mpirun"
printf 'while :; do sleep 0.1; done\n' >>"$tmp/deaf/mpirun"
while IFS='|' read -r signal says want; do
    rm -f "$tmp/deaf/here"
    SAYS=$says PATH=$tmp/deaf:$PATH start 1 --np 2 "${run[@]}"
    must soon test -e "$tmp/deaf/here"
    kill "-$signal" "$job"
    job_ends "$want"
    [ "$want" = 0 ] || said "stopped by SIG$signal before the run was set up"
done <<'END'
INT||75
TERM||75
USR1||75
INT|dtrain: SIGUSR1 came after the last step: the run is complete all the same|0
END

# one whose ranks have ended and that does not end
printf '#!/bin/sh\nOMPI_COMM_WORLD_RANK=0 MPI_LOCALRANKID=0 sleep 2\nwhile :; do sleep 1; done\n' >"$tmp/deaf/mpirun"
gives 71 env PATH="$tmp/deaf:$PATH" "$DTRAIN_BIN" --np 2 "${run[@]}"
said "mpirun has not ended 15 s after its ranks"
sed -i '2itrap "" USR1 TERM' "$tmp/deaf/mpirun" # nor when it is asked (Open MPI 5.0.7, seldom)
PATH=$tmp/deaf:$PATH start 1 --np 2 "${run[@]}"
must soon pgrep -P "$job" >"$tmp/stdout"
kill -INT "$job"
must soon grep -q "^dtrain: SIGINT: " "$tmp/stderr"
sleep 1.2
kill -INT "$job"
job_ends 130
said "ended by a second signal"

# no place, or no room, for Open MPI's own files: said before it starts
if only_openmpi "files in TMPDIR"; then
    bounded env TMPDIR=/proc/none "$DTRAIN_BIN" --np 2 "${run[@]}"
    judge 74 "TMPDIR cannot be made" "/proc/none: no room for Open MPI's files" "TMPDIR"
    bounded bash -c 'ulimit -f 4000; exec "$@"' - "$DTRAIN_BIN" --np 2 "${run[@]}" # KiB
    judge 74 "ulimit -f" "ulimit -f" "File too large"
fi

# no rank may read another's memory, as in containers: Open MPI is told, and says nothing of it
if [ "$(uname -m)" = x86_64 ]; then
    cat >"$tmp/denied" <<'END'
my $f = join '', map { pack 'SCCL', @$_ } # of system calls: process_vm_readv fails with EPERM
    [0x20, 0, 0, 0], [0x15, 0, 1, 310], [0x06, 0, 0, 0x00050001], [0x06, 0, 0, 0x7fff0000];
my $p = pack 'Sx6P', 4, $f;
syscall(157, 38, 1, 0, 0, 0) == 0 && syscall(157, 22, 2, $p) == 0 or die "no seccomp: $!";
exec @ARGV;
END
    DT_SPLIT_NODES=2 bounded perl "$tmp/denied" "$DTRAIN_BIN" --np 2 "${tiny[@]}" --width-divisor 8 --exchange tree
    must test "$code" = 0
    must test "$(wc -l <"$tmp/stderr")" = 0
fi

# Ctrl-Z where hosts are waited for
if only_openmpi "hosts without ssh"; then
    (umask 077 && echo "a token of twenty letters" >"$tmp/token")
    start 1 launch --nnodes 2 --node-rank 1 --master 192.0.2.1:1 --token-file "$tmp/token"
    must soon catches "$job" 20
    kill -TSTP "$job"
    must soon state "$job" T
    kill -CONT "$job"
    kill -TERM "$job"
    job_ends 75
fi

# a command that saves nothing ends by the signal
start 1 --np 2 bench --net vgg11 --width-divisor 16 --steps 1000000
must soon find_pids
kill -INT "$job"
job_ends 130
finish
