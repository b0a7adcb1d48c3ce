#!/usr/bin/env bash
# scripts/tutorial/cs744: all parts of the assignment, its tables from their records, pictures, pages.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
export DTRAIN_BIN OMPI_MCA_odls_base_sigkill_timeout=0
small=(--width-divisor 16 --precision fp32 --threads 1 --global-batch 32)
cs744() { bounded bash "$DTRAIN_SOURCE/scripts/tutorial/cs744" "$@"; }

cd "$tmp" || exit 1
cs744 --data synthetic:736 --out=here --steps 22 "${small[@]}"
judge 0 "all parts"
must python3 - "$tmp/stdout" <<'P'
import json, re, sys
parts = "part1 part2a part2a-extra part2b part3".split()
report, said = open("here/report.md").read(), open(sys.argv[1]).read()
rows = {}
for line in report.splitlines():
    cells = [c.strip() for c in line.strip("|").split("|")]
    if line.startswith("| ") and line in said:
        rows.setdefault(cells[0], cells[1:])
head = next(l for l in report.splitlines() if l.startswith("| iteration |")).split("|")[2:]
hashes = {}
for part in parts:
    records = [json.loads(l) for l in open(f"here/{part}/metrics.jsonl")]
    steps = [r for r in records if r["kind"] == "step"]
    test = next(r for r in records if r["kind"] == "epoch")
    assert len(steps) == 22
    mean = sum(s["seconds"] for s in steps[1:]) / 21
    alone = mean if part == "part1" else alone
    row = rows[part][1:]
    for k, want, within in ((0, mean, 1e-4), (1, mean, 1e-4), (2, 32 / mean, 0.1), (3, alone / mean, 0.01),
                            (4, test["test_loss"], 1e-4), (5, 100 * test["test_accuracy"], 0.01)):
        assert abs(float(row[k].rstrip(" %")) - want) <= within, (part, k, row, want)
    hashes[part] = row[6]
    assert row[6] == records[-1]["weights_hash"]
    column = [c.strip() for c in head].index(part)
    for i in 0, 20:
        assert abs(float(rows[str(i)][column]) - steps[i]["loss"]) <= 1e-4, (part, i)
    losses = re.findall(r"^(\d+) loss: ", open(f"here/{part}.log").read(), re.M)
    assert losses == ["0", "20"], losses
assert hashes["part2a"] == hashes["part2a-extra"] != hashes["part1"], hashes
P
if command -v gnuplot >/dev/null; then
    for picture in curves:part2b exchange:allreduce; do must grep -q "${picture#*:}" "here/${picture%:*}.svg"; done
    for part in part1 part2a part2a-extra part2b part3; do must grep -q "</html>" "here/$part.html"; done
else
    echo "SKIPPED: no gnuplot here"
fi

# what is over stays; a part that is missing comes again, here by a list of hosts
cp here/part1/metrics.jsonl before
rm -r here/part3
cs744 --data synthetic:736 --out here --steps 22 --hosts localhost:4 "${small[@]}"
judge 0 "the second time"
must cmp <(grep '"step":' before) <(grep '"step":' here/part1/metrics.jsonl)
must test -n "$(hashes here/part3)"

cs744 --data "$tmp/none" --out other
judge 66 "no data"
cs744 --out other
judge 64 "no data" "--data is missing"
finish
