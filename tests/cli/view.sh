#!/usr/bin/env bash
# dtrain plot, runs and report: pictures that other programs open, tables, and names that do no harm.
. "$DTRAIN_SOURCE/tests/support/cli.bash"
export TERM=dumb LC_ALL=C

hostile="it's <&\"{*2 x}\`touch bad\`; @_^ é"
train() { # FOLDER OPTION...
    accepts "${tiny[@]}" --data synthetic:96 --max-steps -1 --epochs 2 --save-every 0 --out "$@"
}
cd "$tmp" || exit 1
train runs/plain --lr 0.02
train "runs/$hostile" --schedule cosine
# A kill that cut a line, and lines that are no records.
cp -r runs/plain runs/cut
sed -i '$d' runs/cut/metrics.jsonl
printf 'hello\n[1]\n{"kind":"step","epoch":3,"st' >>runs/cut/metrics.jsonl

# refused CODE TEXT ARGS...: one line of stderr
refused() {
    local want=$1 text=$2
    shift 2
    gives "$want" "$DTRAIN_BIN" "$@"
    must test "$(grep -c '' "$tmp/stderr")" = 1
    must grep -qF -- "$text" "$tmp/stderr"
}

# ---- Tables ----
accepts runs --json
must python3 - "$tmp/stdout" "$hostile" <<'P'
import json, sys
rows = {r["run"]: r for r in json.load(open(sys.argv[1]))}
assert set(rows) == {"plain", "cut", sys.argv[2]}, set(rows)
for name, r in rows.items():
    records = [json.loads(l) for l in open(f"runs/{name}/metrics.jsonl") if l.endswith("}\n")]
    steps = [x for x in records if x["kind"] == "step"]
    tests = [x["test_accuracy"] for x in records if x["kind"] == "epoch"]
    rate = sum(x["images"] for x in steps) / sum(x["seconds"] for x in steps)
    assert (r["state"], r["net"], r["epochs"], r["steps"]) == ("over", "vgg11", 2, 6), r
    assert (r["best_accuracy"], r["last_accuracy"]) == (max(tests), tests[-1]), r
    assert abs(r["images_per_s"] / rate - 1) < 1e-6, (r, rate)
    assert all(abs(x["images"] / x["seconds"] / x["images_per_s"] - 1) < 1e-6 for x in steps)
    end = records[-1] if records[-1]["kind"] == "end" else {}
    assert [r[k] for k in ("weights_hash", "state_hash")] == [end.get(k) for k in ("weights_hash", "state_hash")]
P
must grep -qF "cut/metrics.jsonl: 2 lines are no JSON objects" "$tmp/stderr"
accepts runs runs/plain "runs/$hostile" --json
must python3 - "$tmp/stdout" "$hostile" <<'P'
import json, sys
rows = json.load(open(sys.argv[1]))
assert [r["run"] for r in rows] == ["plain", sys.argv[2]], rows
assert all(list(r)[:4] == ["run", "lr", "schedule", "state"] for r in rows), rows
assert [(r["lr"], r["schedule"]) for r in rows] == [("0.02", "constant"), ("0.01", "cosine")]
P
accepts runs runs/plain
must test "$(grep -c '' "$tmp/stdout")" = 2
refused 66 "nowhere: no folder of runs" runs nowhere
mkdir none
refused 66 "none holds no run" runs none

# ---- Pictures ----
bench=(bench --net vgg11 --width-divisor 16 --global-batch 32 --shards 2 --threads 1 --steps 1 --json)
accepts "${bench[@]}" --layers && cp "$tmp/stdout" layers.json
launch 2 "${bench[@]}" --scaling && cp "$tmp/stdout" scaling.json
launch 2 "${bench[@]}" --exchange all && cp "$tmp/stdout" exchange.json
accepts plot runs/* --out all.gp
must test ! -s "$tmp/stdout"
# Over epochs: how long one is tells the first that another follows.
mkdir runs/short
for n in 1 2; do
    printf '{"kind":"step","epoch":1,"step":%d,"loss":1,"lr":0,"images_per_s":0}\n' "$n"
done >runs/short/metrics.jsonl
echo '{"kind":"epoch","epoch":1,"test_loss":1,"test_accuracy":0}' >>runs/short/metrics.jsonl
places() { sed -n '/^\$steps/,/^EOD/s/^\([0-9.]\+\) 1 .*/\1/p' short.gp | tr '\n' ' '; }
accepts plot runs/short --x epoch --out short.gp
must test "$(places)" = ""
echo '{"kind":"step","epoch":2,"step":3,"loss":1,"lr":0,"images_per_s":0}' >>runs/short/metrics.jsonl
accepts plot runs/short --x epoch --out short.gp
must test "$(places)" = "0.5 1 1.5 "
rm -r runs/short
# No file of another kind is replaced.
cp runs/plain/metrics.jsonl before
refused 64 "scripts in .gp" plot runs/plain --out runs/plain/metrics.jsonl
refused 64 ".html" report runs/plain --out runs/plain/metrics.jsonl
must cmp runs/plain/metrics.jsonl before
rm before
if ! command -v gnuplot >/dev/null; then
    echo "SKIPPED: no gnuplot here"
    finish
fi
for x in step epoch images time; do accepts plot runs/* --x "$x" --smooth 3 --out "$x.svg"; done
accepts plot runs/* --out all.svg
must cmp <(gnuplot all.gp) all.svg
accepts report "runs/$hostile" --out page.html
accepts plot --layers layers.json --out layers.svg
accepts plot --scaling scaling.json --out scaling.svg
accepts plot --exchange all exchange.json --out exchange.svg
must python3 - "$hostile" <<'P'
import re, sys
import xml.etree.ElementTree as X
def texts(root): return ["".join(e.itertext()).strip() for e in root.iter() if e.tag.endswith("text")]
for x in "step", "epoch", "images", "time":
    root = X.parse(x + ".svg").getroot()
    said = texts(root)
    for name in "plain", "cut", sys.argv[1]: assert said.count(name) == 1, (name, said)
    assert said.count(x if x != "time" else "minutes") == 4
    # Lines of a run: a path of its colour in each panel, and in the legend.
    for colour in "0, 114, 178", "213,  94,   0", "  0, 158, 115":
        want = re.sub(" ", "", colour)
        lines = [e for e in root.iter() if e.tag.endswith("path") and want in re.sub(" ", "", e.get("stroke", ""))]
        assert len(lines) >= 5, (x, colour, len(lines))
for name, words in ("layers", "roofline|longest passes"), ("scaling", "ideal|shared"), ("exchange", "shared|tree|gather"):
    said = texts(X.parse(name + ".svg").getroot())
    assert all(w in said for w in words.split("|")) and "?" not in said, (name, said)
page = open("page.html", encoding="utf-8").read()
for bad in "<script", "http://", "https://", "src=", "<&":
    found = re.sub(r'xmlns(:xlink)?="http://www.w3.org/[^"]*"', "", page)
    assert bad not in found, bad
from html.parser import HTMLParser
class Page(HTMLParser):
    text = ""
    def handle_data(self, data): self.text += data
p = Page(); p.feed(page)
for want in (sys.argv[1], "schedule", "cosine", "weights_hash", "rank  host", "test accuracy, %"): assert want in p.text, want
P
must test ! -e bad
accepts plot runs/* --out runs.png
must python3 - <<'P'
import struct, zlib
data, at, raw = open("runs.png", "rb").read(), 8, b""
assert data[:8] == b"\x89PNG\r\n\x1a\n"
while at < len(data):
    n, kind = struct.unpack(">I4s", data[at:at + 8])
    body = data[at + 8:at + 8 + n]
    assert zlib.crc32(kind + body) == struct.unpack(">I", data[at + 8 + n:at + 12 + n])[0]
    if kind == b"IHDR": width, height = struct.unpack(">II", body[:8])
    if kind == b"IDAT": raw += body
    at += 12 + n
assert kind == b"IEND" and width == 1200 and height > 700
assert len(set(zlib.decompress(raw))) > 10
P
accepts plot runs/* # in the terminal
must grep -q "test accuracy" "$tmp/stdout"
must test "$(LC_ALL=C grep -c '[^ -~]' "$tmp/stdout")" = 0
# A run without a record, and one whose losses are not finite.
mkdir runs/new && : >runs/new/metrics.jsonl
mkdir runs/nan && printf '{"kind":"step","epoch":1,"step":1,"loss":null,"lr":0,"images_per_s":0}\n' >runs/nan/metrics.jsonl
for run in new nan; do accepts plot runs/$run --out one.svg && accepts runs runs/$run && accepts plot runs/$run; done
# Nothing is written where the name of a picture, a file or a run is wrong.
refused 64 ".svg or .png" plot runs/plain --out picture.gif
refused 66 "no run folder" plot runs
refused 65 "not what dtrain bench --layers --json prints" plot --layers scaling.json --out wrong.svg
ln -s elsewhere link.svg
refused 73 "link.svg" plot runs/plain --out link.svg
must test ! -e picture.gif -a ! -e wrong.svg -a ! -e elsewhere
# Without gnuplot: one line and its code; the script needs none.
printf '#!/bin/sh\nPATH=%s exec "%s" "$@"\n' "$tmp/nowhere" "$DTRAIN_BIN" >bare && chmod +x bare
DTRAIN_BIN=$tmp/bare refused 78 "gnuplot-nox" plot runs/plain --out none.svg
DTRAIN_BIN=$tmp/bare refused 78 "gnuplot-nox" report runs/plain --out none.html
DTRAIN_BIN=$tmp/bare accepts plot runs/plain --out none.gp
must test -s none.gp -a ! -e none.svg -a ! -e none.html
# Quotes anywhere in a name; one that steers a terminal; lines that are no records take no memory.
esc=$(printf 'r\033[31m\377')
for run in "'a" "a''b" "\"'\`" "$esc"; do
    cp -r runs/plain "$tmp/$run"
    accepts plot "./$run" --out one.svg
    must python3 -c 'import sys, xml.dom.minidom as x; x.parse("one.svg")'
    accepts report "./$run" --out one.html
    must python3 -c 'open("one.html", encoding="utf-8").read()'
    for command in status verify runs; do
        accepts "$command" "./$run"
        must test "$(LC_ALL=C grep -c '[^ -~]' "$tmp/stdout")" = 0
    done
done
must grep -q 'r?\[31m?' "$tmp/stdout"
cp -r runs/plain many
must python3 - "$DTRAIN_BIN" <<'P'
import resource, subprocess, sys
open("many/metrics.jsonl", "a").write("{}\n" * 4000000)
assert subprocess.run([sys.argv[1], "runs", "many"], stdout=subprocess.DEVNULL).returncode == 0
most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
assert most < 600, f"{most} MiB"
P
finish
