# cli.bash - helpers of tests/cli: run dtrain on several ranks, judge exit code and message.
#
# A case is right when, at one number of ranks or another, the process ends in time with the wanted
# code, one line of stderr (exactly one: eight ranks print one message) holds all wanted
# texts, and no model was left behind. Run through ctest, which sets the environment.
set -u
: "${DTRAIN_BIN:?is set by ctest}"
. "$DTRAIN_SOURCE/tests/support/runs.bash" || exit 1
unset DTRAIN_DATA DTRAIN_CONFIG
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
# mpirun's own files too, so that jobs of other tests and users cannot disturb them
mkdir "$tmp/mpi"
export OMPI_MCA_orte_tmpdir_base=$tmp/mpi PRTE_MCA_prte_tmpdir_base=$tmp/mpi
launcher='mpirun|prterun' # what the process is called: Open MPI 5's mpirun becomes prterun
bad=0
cases=0
refusals=0
limit=${DTRAIN_TEST_LIMIT:-1800} # seconds: only against hanging, on machines however slow
ranks="1 8"
if [ -n "${ASAN_OPTIONS:-}" ]; then # a sanitized rank is slow and takes much memory
    ranks="1 2"
    limit=$((2 * limit))
fi

# A run that is over in a moment.
tiny=(--data synthetic:64 --net vgg11 --width-divisor 16 --global-batch 32 --shards 8
      --precision fp32 --threads 1 --max-steps 1)

# bounded COMMAND...: sets $code; output in $tmp/stdout and $tmp/stderr. A command that is
# there after the limit is killed, and that is a failure; but a mpirun whose ranks have all
# left and that does not leave itself (Open MPI 4.1.4, one launch in some thousands) is
# named and started once more.
bounded() {
    local try job parent left
    touch "$tmp/started"
    for try in 1 2; do
        timeout -k 2 "$limit" "$@" >"$tmp/stdout" 2>"$tmp/stderr" </dev/null &
        job=$!
        left=
        for ((tick = 0; tick < limit * 20 - 20; tick++)); do
            kill -0 "$job" 2>/dev/null || break
            sleep 0.05
        done
        if kill -0 "$job" 2>/dev/null; then
            parent=$(pgrep -P "$job" -x "$launcher") &&
                left=$(ps -o stat= --ppid "$parent" | grep -cv '^Z')
        fi
        wait "$job"
        code=$?
        [ "$left" = 0 ] && [ "$try" = 1 ] && [[ $code =~ ^(124|137)$ ]] || return 0
        echo "mpirun stayed after its ranks had left; once more: $*"
    done
}

# launch NP ARGS...: sets $code; output in $tmp/stdout and $tmp/stderr
launch() {
    local np=$1 mpi=()
    shift
    [ "$np" -gt 1 ] && mpi=(mpirun -np "$np")
    bounded "${mpi[@]}" "$DTRAIN_BIN" "$@"
}

# complain WHAT...: a case went wrong
complain() {
    bad=1
    echo "FAILED: $*"
    echo "  exit code $code; stderr:"
    sed 's/^/  | /' "$tmp/stderr" | head -n 20
}

# What may stand in stderr beside the one message: warnings, what is said of data and
# checkpoints, and what the watch says of a rank on a busy machine.
beside='^(dtrain: warning: |dtrain: rank [0-9]+ (goes on|\(host [^ ]+, pid [0-9]+\) is in .* for [0-9.]+ s)|  [a-z_]+: the checkpoint has |dtrain: the last checkpoint |dtrain: no checkpoint was saved |CIFAR-10: |resumed from |the newest state of )'

# without_mpirun: the lines of stderr, without mpirun's words between its rulers, without blank lines
without_mpirun() {
    LC_ALL=C sed -E '/^\[warn\] Epoll |^\[[^]]*\] PMIX ERROR: /d; /^-{60,}$/,/^-{60,}$/d; /^[[:space:]]*$/d' "$tmp/stderr" # may hold bytes that are no text
}

# judge CODE LABEL TEXT...: the last launch ended with CODE (or "A|B"). Where that is a
# failure, stderr holds one message, and it has each TEXT; else one of its lines has.
judge() {
    local want=$1 label=$2 lines text
    shift 2
    cases=$((cases + 1))
    if ! [[ $code =~ ^($want)$ ]]; then
        complain "$label: want exit code $want"
        return
    fi
    without_mpirun >"$tmp/lines"
    if [ "$want" != 0 ]; then
        sed -i '/^dtrain: warning: /d' "$tmp/lines"
        lines=$(LC_ALL=C grep -acvE "$beside" "$tmp/lines")
        [ $# = 0 ] || [ "$lines" = 1 ] || complain "$label: want one message, got $lines"
    fi
    for text in "$@"; do
        LC_ALL=C grep -aF -- "$text" "$tmp/lines" >"$tmp/kept"
        mv "$tmp/kept" "$tmp/lines"
    done
    lines=$(wc -l <"$tmp/lines")
    [ $# = 0 ] || [ "$lines" = 1 ] || complain "$label: want one line with [$*], got $lines"
    if [ "$want" != 0 ] && find "$tmp" -name 'model*' -size +0 -newer "$tmp/started" |
            grep -q .; then
        complain "$label: a model was left behind"
    fi
}

# refuses CODE TEXT... -- ARGS...: at one of the numbers of ranks, which take turns; all of them
# would take the suite's minutes
refuses() {
    local want=$1 texts=() turns np
    shift
    take_words texts "$@" && shift "$taken"
    # mpirun sleeps this long, once or twice, when a rank has ended with a code: by default 1 s
    # (Open MPI 5: always a quarter of a second)
    local -x OMPI_MCA_odls_base_sigkill_timeout=0
    read -ra turns <<<"$ranks"
    np=${turns[-1 - refusals++ % ${#turns[@]}]}
    launch "$np" "$@"
    judge "$want" "np $np: $*" "${texts[@]}"
}

# exits CODE WHAT: what has just ended has this exit code, or one of "A|B"
exits() {
    cases=$((cases + 1))
    [[ $code =~ ^($1)$ ]] || complain "$2: want exit code $1"
}

# gives CODE COMMAND...: its exit code
gives() {
    bounded "${@:2}"
    exits "$1" "${*:2}"
}

# accepts_on NP ARGS...: succeeds on so many ranks
accepts_on() {
    launch "$@"
    exits 0 "np $1: ${*:2}"
}

# accepts ARGS...: succeeds on one rank; a test that only refuses could not fail
accepts() { accepts_on 1 "$@"; }

# prints COUNT TEXT ARGS...: stdout holds TEXT on COUNT lines at every number of ranks
prints() {
    local count=$1 text=$2 np
    shift 2
    for np in $ranks; do
        accepts_on "$np" "$@"
        [ "$(grep -cF -- "$text" "$tmp/stdout")" = "$count" ] ||
            complain "np $np: $*: want $count lines with '$text'"
    done
}

# job_ends CODE [WHAT]: the job that was started does, within the limit
job_ends() {
    job_end
    exits "$1" "${2:-the job}"
}

# program FILE: a program with these lines, for PATH and mpirun
program() {
    mkdir -p "$(dirname "$1")"
    cat >"$1"
    chmod +x "$1"
}

# must COMMAND...: a step of the test's own, or a check
must() {
    cases=$((cases + 1))
    "$@" || { code=- && : >"$tmp/stderr" && complain "$*"; }
}

# isas: the instruction sets that this CPU can run, the lowest first
isas() {
    local isa best
    best=$("$DTRAIN_BIN" env | sed -n 's/^isa  *//p')
    for isa in portable neon avx2 avx512 avx512_bf16 amx; do
        [ "$isa" = neon ] && [ "$(uname -m)" != aarch64 ] && continue
        echo "$isa"
        [ "$isa" != "$best" ] || return 0
    done
}

# equal A B: the same text, and not none: what two runs failed to write is equal, too
equal() {
    must test -n "$1"
    must test "$1" = "$2"
}

# red_png FILE: an image of 8 x 8 pixels, 8-bit RGB
red_png() {
    base64 -d >"$1" <<<iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEUlEQVR42mM4oaGBFTEMLQkAgl1GARdiiXUAAAAASUVORK5CYII=
}

# images FOLDER: two classes, four images of each, in each split
images() {
    local split class i
    for split in train test; do
        for class in cat dog; do
            mkdir -p "$1/$split/$class"
            for i in 1 2 3 4; do red_png "$1/$split/$class/$i.png"; done
        done
    done
}

# finish: the exit code of the test
finish() {
    echo "$cases checks"
    exit "$bad"
}
