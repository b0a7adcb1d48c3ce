# Sourced by run.sh and run_cluster.sh: the folders of a host's ranks, before and after. Not a
# program of its own.
. "$here/../setup.sh"

# tutorial_program: $program; no folder is made for what cannot start
tutorial_program() {
    program=$(command -v "${DTRAIN_BIN:-$here/../../dtrain}") || {
        echo "training failed: no program ${DTRAIN_BIN:-$here/../../dtrain}; build it with ./quickstart" >&2
        exit 66
    }
    program=$(realpath "$program")
}

# tutorial_folders FIRST COUNT: $folders, one for each rank from FIRST on
tutorial_folders() {
    local i
    folders=()
    for ((i = $1; i < $1 + $2; i++)); do
        folders+=("device$i")
        [ ! -e "device$i" ] && [ ! -L "device$i" ] || {
            echo "training failed: $PWD/device$i is there already: move it away, or start in another folder" >&2
            exit 73
        }
    done
    mkdir "${folders[@]}" || exit 73
    for i in "${folders[@]}"; do
        echo "start training for device ${i#device}"
    done
}

# tutorial_end CODE: the last words; folders of ranks that never began do no harm
tutorial_end() {
    if [ "$1" = 0 ]; then
        echo "training success"
    else
        echo "training failed"
        [ ! -e "${folders[0]}/train.log" ] || tail -n 3 "${folders[0]}/train.log"
        rmdir "${folders[@]}" 2>/dev/null
    fi
    exit "$1"
}
