# runs.bash - what tests and proofs ask of a run: how it ended, and its processes. cli.bash and hosts.bash
# have it, too.

# hashes FOLDER: of the weights and the state at the end of the run; nothing of one that has not ended
hashes() {
    tail -n 1 "$1/metrics.jsonl" | sed -nE 's/.*"weights_hash":"([0-9a-f]{32})","state_hash":"([0-9a-f]{32})".*/\1 \2/p'
}

# gone PID: it has ended, whether or not anyone has asked for its exit code
gone() { [[ $(sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2>/dev/null || echo Z) = [ZX] ]]; }
