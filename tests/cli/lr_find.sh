#!/usr/bin/env bash
# lr-find: the rates are a geometric series, the suggestion is where the smoothed loss falls most,
# any number of ranks gives the same lines, and nothing is left behind.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1

find=(lr-find "${tiny[@]}" --data synthetic:256 --max-steps 60 --json)
mkdir "$tmp/here" && cd "$tmp/here" || exit 1
accepts "${find[@]}" --lr-to 20
cp "$tmp/stdout" "$tmp/found"
accepts_on 3 "${find[@]}" --lr-to 20
equal "$(cat "$tmp/found")" "$(cat "$tmp/stdout")"
must python3 - "$tmp/found" <<'END'
import json, math, sys
lines = [json.loads(l) for l in open(sys.argv[1])]
n, total = 60, 0
assert 20 < len(lines) <= n, len(lines)
sums = []
for i, l in enumerate(lines):
    assert l["step"] == i + 1 and math.isclose(l["lr"], 2e-4 * 1e5 ** (i / (n - 1)), rel_tol=1e-7), l
    weights = [0.9 ** (i - k) for k in range(i + 1)]
    mean = sum(w * x["loss"] for w, x in zip(weights, lines)) / sum(weights)
    assert math.isclose(l["smoothed"], mean, rel_tol=1e-6), (l, mean)
    sums.append(l["smoothed"])
assert len(lines) == n or sums[-1] > 4 * min(sums), "ended early"
falls = [a - b for a, b in zip(sums, sums[1:])]
best = max(range(9, len(falls)), key=falls.__getitem__) # after ten steps
assert falls[best] > 0 and lines[-1]["suggested"] == lines[best]["lr"], (best, lines[-1])
END
accepts "${find[@]}" --lr-to 20 --lookahead 5
equal "$(cat "$tmp/found")" "$(cat "$tmp/stdout")"
# the loss is that of a training with this schedule
accepts "${tiny[@]}" --data synthetic:256 --epochs 8 --max-steps 10 --schedule exponential --schedule-steps 60 \
    --lr 0.0002 --lr-to 20 --out "$tmp/trained"
must python3 - "$tmp/found" "$tmp/trained/metrics.jsonl" <<'END'
import json, sys
found, trained = ([json.loads(l) for l in open(p)] for p in sys.argv[1:])
steps = [l for l in trained if l["kind"] == "step"]
assert len(steps) == 10 and all(a["loss"] == b["loss"] and a["lr"] == b["lr"] for a, b in zip(found, steps))
END
# a loss that is not finite ends it
accepts "${find[@]}" --lr-to 1000000
must test "$(wc -l <"$tmp/stdout")" -lt 60
must test -z "$(ls -A)"
accepts plot --x lr "$tmp/found" --out "$tmp/found.gp"
must test "$(sed -n '/^\$d/,/^EOD/p' "$tmp/found.gp" | grep -cE '^[0-9.e+-]+ [0-9.e+-]+ [0-9.e+-]+ *$')" = "$(wc -l <"$tmp/found")"
refuses 65 "not what dtrain lr-find --json prints" -- plot --x lr "$tmp/trained/metrics.jsonl"
if command -v gnuplot >/dev/null; then
    accepts plot --x lr "$tmp/found" --out "$tmp/found.svg"
    must python3 -c 'import sys, xml.etree.ElementTree as X
assert "learning rate" in "".join(X.parse(sys.argv[1]).getroot().itertext())' "$tmp/found.svg"
fi
finish
