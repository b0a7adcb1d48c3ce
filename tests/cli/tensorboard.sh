#!/usr/bin/env bash
# dtrain tensorboard: every record once, with checksums that another implementation agrees with; a
# new file where lines were undone; --watch appends.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
. "$DTRAIN_SOURCE/tests/support/runs.bash" || exit 1
export PYTHONPATH=$DTRAIN_SOURCE/tests/support PYTHONDONTWRITEBYTECODE=1
ranks=1

# same RUN LOGS: the one event file of LOGS that is not empty holds what metrics.jsonl says, and no more
same() {
    must python3 - "$1/metrics.jsonl" $(find "$2" -name 'events.out.tfevents.*' -size +0) <<'END'
import json, struct, sys
from protobuf import fields
table = []
for byte in range(256): # CRC-32C, by its polynomial
    for _ in range(8):
        byte = byte >> 1 ^ 0x82F63B78 * (byte & 1)
    table.append(byte)
def masked(data):
    c = 0xFFFFFFFF
    for byte in data:
        c = table[(c ^ byte) & 255] ^ c >> 8
    c ^= 0xFFFFFFFF
    return (c >> 15 | c << 17 & 0xFFFFFFFF) + 0xA282EAD8 & 0xFFFFFFFF
assert masked(b"123456789") == ((0xE3069283 >> 15 | 0xE3069283 << 17 & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF
(path,) = sys.argv[2:]
data, at, events = open(path, "rb").read(), 0, []
while at < len(data):
    (n,), (head,) = struct.unpack_from("<Q", data, at), struct.unpack_from("<I", data, at + 8)
    body, (tail,) = data[at + 12:at + 12 + n], struct.unpack_from("<I", data, at + 12 + n)
    assert masked(data[at:at + 8]) == head and masked(body) == tail
    events.append(fields(body))
    at += 16 + n
first, start, *rest = events
assert first[3] == [b"brain.Event:2"] and fields(start[7][0]) == {1: [1]}
has = [(e[2][0], v[1][0].decode(), v[2][0]) for e in rest for v in map(fields, fields(e[5][0])[1])]
assert all(e[1][0] > 1e9 for e in events), "seconds since 1970"
want, step = [], 0
tags = {"step": (("loss", "loss/train"), ("lr", "lr"), ("images_per_s", "images_per_s")),
        "epoch": (("test_loss", "loss/test"), ("test_accuracy", "accuracy/test")), "end": (), "link": ()}
for line in map(json.loads, open(sys.argv[1])):
    step = line.get("step", step)
    want += [(step, tag, struct.unpack("<f", struct.pack("<f", line[key]))[0]) for key, tag in tags[line["kind"]]
             if line[key] is not None]
assert has == want and len(want) > 8
END
}
run=("${tiny[@]}" --epochs 3 --save-every 2 --keep-last 9 --out "$tmp/a")
accepts "${run[@]}" --max-steps 6
accepts tensorboard "$tmp/a" --out "$tmp/logs"
same "$tmp/a" "$tmp/logs/a"

# undone lines: a shorter file, then other lines
cp -r "$tmp/a" "$tmp/b"
mkdir "$tmp/other"
accepts tensorboard "$tmp/b" --out "$tmp/logs"
"$DTRAIN_BIN" tensorboard "$tmp/b" --out "$tmp/other" --watch >/dev/null # no run holds it: once
same "$tmp/b" "$tmp/other/b"
sed -i '3,$d' "$tmp/b/metrics.jsonl"
sed -n '2,$p' "$tmp/a/metrics.jsonl" >>"$tmp/b/metrics.jsonl"
printf '{"kind":"step","epoch":1,"st' >>"$tmp/b/metrics.jsonl" # being written
accepts tensorboard "$tmp/b" --out "$tmp/logs"
sed -i '$d' "$tmp/b/metrics.jsonl"
same "$tmp/b" "$tmp/logs/b"
must test -e "$tmp/logs/b/events.out.tfevents.0000000002.dtrain"

# --watch follows a run that is held, through lines that are taken back
cp -r "$tmp/a" "$tmp/c"
head -n 4 "$tmp/a/metrics.jsonl" >"$tmp/c/metrics.jsonl"
exec 7>>"$tmp/c/.lock"
flock 7
"$DTRAIN_BIN" tensorboard "$tmp/c" --out "$tmp/logs" --watch >/dev/null 7>&- &
watch=$!
file=$tmp/logs/c/events.out.tfevents.000000000
must within test -e "${file}1.dtrain"
inode=$(stat -c %i "${file}1.dtrain")
sed -n 5,6p "$tmp/a/metrics.jsonl" >>"$tmp/c/metrics.jsonl"
before=$(stat -c %s "${file}1.dtrain")
grown() { [ "$(stat -c %s "$1")" -gt "$2" ]; }
must within grown "${file}1.dtrain" "$before"
must test "$inode" = "$(stat -c %i "${file}1.dtrain")"
{ head -n 2 "$tmp/a/metrics.jsonl" && sed 's/"images_per_s":/&1/; 1,2d' "$tmp/a/metrics.jsonl"; } >"$tmp/new"
head -n -3 "$tmp/new" >"$tmp/c/metrics.jsonl"
must within test -s "${file}2.dtrain"
# ... through what fails meanwhile, and another process that replaces the file
mv "$tmp/c/metrics.jsonl" "$tmp/away"
sleep 3
must kill -0 "$watch"
mv "$tmp/away" "$tmp/c/metrics.jsonl"
accepts tensorboard "$tmp/c" --out "$tmp/logs"
tail -n 3 "$tmp/new" >>"$tmp/c/metrics.jsonl"
flock -u 7
wait "$watch"
must test $? = 0
same "$tmp/c" "$tmp/logs/c"

refuses 66 "$tmp/none" -- tensorboard "$tmp/none"
refuses 64 "would both be written to" -- tensorboard "$tmp/a" "$tmp/a/../a" --out "$tmp/logs"
sed -i '2a hello' "$tmp/b/metrics.jsonl" # no record
accepts tensorboard "$tmp/b" --out "$tmp/logs"
sed -i 3d "$tmp/b/metrics.jsonl"
same "$tmp/b" "$tmp/logs/b"
must test -z "$(find "$tmp/logs" -name 'new*')"
finish
