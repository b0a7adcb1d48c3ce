#!/usr/bin/env bash
# What env says of the machine, and ranks that keep to parts of one that hwloc makes up: the head
# says so, their threads do, and the bits are those of ranks that do not.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

accepts env --json
must python3 - "$tmp/stdout" "$(getconf LEVEL2_CACHE_SIZE)" <<'P'
import json, os, sys
e, l2 = json.load(open(sys.argv[1])), int(sys.argv[2] or 0)
assert e["memory"] == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**20, e
if l2 > 0 and e["l2"] > 0:  # each may be unknown in a virtual machine
    assert e["l2"] == l2 / 2**20, (e, l2)
models = [l for l in open("/proc/cpuinfo") if l.startswith("model name")]
assert not models or e["cpu"] in models[0], (e, models)
assert e["packages"] >= 1 and e["numa_nodes"] >= 1 and e["threads_per_rank"] >= 1, e
assert e["pinned"] == "no: one rank has the machine", e
modes = "/sys/kernel/mm/transparent_hugepage/enabled"
try:
    assert f"[{e['huge_pages']}]" in open(modes).read(), e
except OSError:
    assert e["huge_pages"] == "unknown", e
P

cpus=$(nproc --all)
if [ "$(sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status)" != "0-$((cpus - 1))" ] || [ $((cpus % 2)) = 1 ] ||
    [ "$("$DTRAIN_BIN" env | sed -n 's/^cores_allowed *//p')" != "$cpus" ]; then
    echo "SKIPPED: made-up packages: not all CPUs are this process's, or they are not even"
    exit 99
fi
half=$((cpus / 2))
two="HWLOC_SYNTHETIC=package:2 [numa] core:$half pu:1"
list() { if [ "$half" = 1 ]; then echo "$1"; else echo "$1-$(($1 + half - 1))"; fi; }
# hashes SETTING...: of a run on two ranks; its head in $tmp/stdout
hashes() {
    rm -rf "$tmp/run"
    mpirun -np 2 env "$@" "$DTRAIN_BIN" "${tiny[@]}" --out "$tmp/run" >"$tmp/stdout" 2>"$tmp/stderr" ||
        complain "$*: want success"
    grep ' hash ' "$tmp/stdout"
}
plain=$(hashes A=1)
must test "$(wc -l <<<"$plain")" = 2
must test "$(grep -c 'bound to' "$tmp/stdout")" = 0
equal "$plain" "$(hashes "$two")"
must grep -q "^machine    2 ranks x 1 thread bound to NUMA nodes, " "$tmp/stdout"
equal "$plain" "$(hashes "HWLOC_SYNTHETIC=package:2 core:$half pu:1")"
must grep -q "^machine    2 ranks x 1 thread bound to packages, " "$tmp/stdout"
equal "$plain" "$(hashes OMP_PROC_BIND=false "$two")"
must test "$(grep -c 'bound to' "$tmp/stdout")" = 0

# while it runs
mpirun -np 2 env "$two" "$DTRAIN_BIN" "${tiny[@]}" --epochs 1000 --max-steps -1 --out "$tmp/long" >/dev/null 2>&1 &
job=$!
must soon has_steps 1 "$tmp/long"
masks=$(for rank in $(ranks_of "$job"); do
    sed -n 's/^Cpus_allowed_list:\t//p' "/proc/$rank/status"
done | sort -n)
kill -9 "$job"
wait "$job" 2>/dev/null
equal "$(list 0)
$(list "$half")" "$masks"
must test "$(mpirun -np 2 env "$two" "$DTRAIN_BIN" env | sed -n 's/^pinned *//p')" = "NUMA node 0"

finish
