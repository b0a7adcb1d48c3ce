#!/usr/bin/env bash
# A run can be proven: its chain is the same on any ranks and after kills, replay repeats epochs elsewhere, and what
# was forged is named, at its epoch where it has one.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
command -v python3 >/dev/null || { echo "SKIPPED: no python3"; exit 99; }
export TMPDIR=$tmp
run=(--data synthetic:96 --net mlp --batch 4 --shards 8 --epochs 6 --precision fp32 --lr 0.02 --keep-every epoch --save-every 2)
links() { grep '"kind":"link"' "$1/metrics.jsonl"; }
accepts_env() { local -x "${1?}"; shift; accepts "$@"; }
cert() { accepts certify "$1" --out "$2"; }

# ---- one chain, on any ranks ----
accepts "${run[@]}" --out "$tmp/one"
for steps in 5 11; do # stopped in the middle of epochs 2 and 4, which goes on
    accepts_on 2 "${run[@]}" --out "$tmp/two" --resume auto --max-steps "$steps"
done
accepts_on 3 "${run[@]}" --out "$tmp/two" --resume auto --max-steps -1
equal "$(links "$tmp/one")" "$(links "$tmp/two")"
equal "$(links "$tmp/one" | wc -l)" 8 # a start, six epochs, the end

# ---- certificates: ours, an outsider's check from the page alone ----
cert "$tmp/two" "$tmp/two/run.cert"
must grep -q "^6 epochs, from the initial weights; .*; exact$" "$tmp/stdout"
cp "$tmp/two/run.cert" "$tmp/good.cert"
accepts certify --check "$tmp/good.cert"
must grep -q "^consistent: 6 epochs" "$tmp/stdout"
sed -n '/^```python$/,/^```$/p' "$DTRAIN_SOURCE/docs/proof.md" | grep -v '^```' >"$tmp/check.py"
must test "$(wc -l <"$tmp/check.py")" -le 40
must python3 "$tmp/check.py" "$tmp/good.cert" >"$tmp/said"
must grep -q "^consistent; from the beginning" "$tmp/said"
equal "$(grep -c '^epoch' "$tmp/said")" 6

# ---- repeated on other ranks, from checkpoints and from the start ----
for np in 1 3; do
    accepts_on "$np" replay "$tmp/two" --random 3 --draw 7 --threads "$np"
    must grep -q "^drawn (--draw 7 repeats it): epochs" "$tmp/stdout"
    equal "$(grep -c "agrees$" "$tmp/stdout")" 5
    must grep -qF "of these 4 epochs, f forged ones escape 3 draws with probability about (1 - f/4)^3; a single one with 0.25" "$tmp/stdout"
done
accepts replay "$tmp/good.cert" --epochs 2 --data synthetic:96
must grep -qE "^ *2 +initial weights .*agrees$" "$tmp/stdout"
accepts replay "$tmp/two/run.cert" --epochs 2,5-6 --data synthetic:96 --exchange tree
equal "$(grep -c "agrees$" "$tmp/stdout")" 4
must grep -qE "^ *5 +step-0*12 .*agrees$" "$tmp/stdout"
must test -z "$(ls -d "$tmp"/dtrain-replay-* 2>/dev/null)"

# on other instruction sets; bf16 by tiles that any CPU computes
for isa in $(isas); do
    accepts_env "DT_MAX_ISA=$isa" replay "$tmp/two" --epochs 3
    equal "$(grep -c "agrees$" "$tmp/stdout")" 2
done
accepts "${run[@]}" --precision bf16 --isa amx --epochs 2 --out "$tmp/tiles"
accepts_env DT_MAX_ISA=portable replay "$tmp/tiles" --epochs 2
equal "$(grep -c "agrees$" "$tmp/stdout")" 2

# ---- what was forged ----
forge() { rm -rf "$tmp/bad"; cp -r "$tmp/two" "$tmp/bad"; }
names() { refuses "$1" "$2" -- replay "$tmp/bad" --epochs 5; } # CODE TEXT
forge; sed -i 's/"step":8,"loss":./"step":8,"loss":9/' "$tmp/bad/metrics.jsonl"; names 65 "epoch 3: the lines of its steps"
refuses 65 "epoch 3: " -- verify "$tmp/bad"
forge; sed -i 's/"kind":"epoch","epoch":4,"train_loss":/&1/' "$tmp/bad/metrics.jsonl"; names 65 "epoch 4: the epoch's line"
forge; sed -i '/"kind":"link".*epoch[^,]*4,/s/"state":"..../"state":"beef/' "$tmp/bad/metrics.jsonl"; names 65 "epoch 4: the link does not bind"
forge; sed -i 's/^lr: .*/lr: 0.03/' "$tmp/bad/options.yaml"; names 78 "--lr 0.03: the run had 0.02"
forge; refuses 78 "--data synthetic:97: unknown data" -- replay "$tmp/bad" --epochs 5 --data synthetic:97
forge
dd if=/dev/zero of="$(echo "$tmp"/bad/checkpoints/step-*15/model.safetensors)" bs=1 seek=3000 count=1 conv=notrunc status=none
names 65 "epoch 5: "
forge; accepts "${run[@]}" --seed 2 --out "$tmp/other"
rm -r "$tmp"/bad/checkpoints/step-*12; cp -r "$tmp"/other/checkpoints/step-*12 "$tmp/bad/checkpoints"
names 65 "epoch 4: checkpoint $tmp/bad/checkpoints/step-0000000012 has not the state that its link names"
forge; cp "$(echo "$tmp"/two/checkpoints/step-*12/model.safetensors)" "$tmp/bad"
names 65 "model.safetensors is not the model that the last link names"
forge; sed -i '/"kind":"epoch","epoch":6,/d' "$tmp/bad/metrics.jsonl"; names 65 "epoch 6: the epoch's line"
forge; sed -i 's/\("step":8,.*"seconds":[0-9.e-]*\)/\1,"loss":0.1/' "$tmp/bad/metrics.jsonl"; names 65 "no JSON object of a run"
forge; grep '"kind":"epoch","epoch":6,' "$tmp/two/metrics.jsonl" >>"$tmp/bad/metrics.jsonl"; names 65 "lines of metrics.jsonl follow the end"
must python3 - "$tmp/good.cert" "$tmp" <<'END'
import copy, json, sys
cert = json.load(open(sys.argv[1]))
def forged(name, change):
    c = copy.deepcopy(cert)
    change(c["links"])
    json.dump(c, open(f"{sys.argv[2]}/{name}.forged", "w"))
record = lambda link, old, new: link.update(record=link["record"].replace(old, new))
forged("state", lambda l: l[2].update(state=l[2]["state"] + "00"))
forged("gap", lambda l: l.pop(3))
forged("number", lambda l: record(l[2], '"epoch":2', '"epoch":2.0'))
forged("huge", lambda l: record(l[1], '"epoch":1', '"epoch":1000000000000'))
forged("record", lambda l: l[2].update(record=[]))
forged("links", lambda l: l.clear())
END
for forged in "$tmp"/*.forged; do
    refuses "65|66" -- certify --check "$forged"
    refuses "65|66" -- replay "$forged" --data synthetic:96
done
# texts edited in lines, records and the checkpoint of step 6, and all links and the checkpoint's hashes computed again
cat >"$tmp/again.py" <<'END'
import ctypes, glob, hashlib, json, re, sys
run, edits = sys.argv[1], list(zip(sys.argv[2::2], sys.argv[3::2]))
sha = lambda text: hashlib.sha256(text.encode()).hexdigest()
def edit(text):
    for old, new in edits:
        text = text.replace(old, new)
    return text
out, lines, before = [], 64 * "0", 64 * "0"
for line in map(edit, open(f"{run}/metrics.jsonl")):
    j = json.loads(line)
    if j["kind"] == "step":
        lines = sha(f'{lines}\n{line.split(chr(44) + chr(34) + "seconds")[0]}\n')
    elif j["kind"] == "link":
        record = json.loads(j["record"])
        if record["kind"] == "epoch":
            j["record"] = j["record"].replace(record["lines"], lines)
        j["before"], j["record"], lines = before, edit(j["record"]), 64 * "0"
        before = j["link"] = sha(f'{before}\n{j["record"]}\n{j["state"]}\n')
        line = json.dumps(j, separators=(",", ":")) + "\n"
    out.append(line)
open(f"{run}/metrics.jsonl", "w").writelines(out)
class Hash(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]
xxh = ctypes.CDLL("libxxhash.so.0").XXH3_128bits
xxh.restype, xxh.argtypes = Hash, [ctypes.c_char_p, ctypes.c_size_t]
def hash_of(text):
    h = xxh(text.encode(), len(text))
    return f"{h.high:016x}{h.low:016x}"
for folder in glob.glob(f"{run}/checkpoints/step-*06"):
    state = edit(open(f"{folder}/state.json").read())
    open(f"{folder}/state.json", "w").write(state)
    head = re.sub(r"\w+ +\d+ state.json", f"{hash_of(state)} {len(state):20} state.json", open(f"{folder}/MANIFEST").read())[:-42]
    open(f"{folder}/MANIFEST", "w").write(f"{head}{hash_of(head)} MANIFEST\n")
END
again() { forge; must python3 "$tmp/again.py" "$tmp/bad" "$@"; }
again '"step":8,"loss":' '"step":8,"loss":1' '"dtrain":"' '"dtrain":"0.9.9 '
cert "$tmp/bad" "$tmp/forged.cert"
accepts certify --check "$tmp/forged.cert"
refuses 80 "1 of 2 epochs came out otherwise" "another program made them" -- replay "$tmp/bad" --epochs 3
must grep -qE '^ *3 .*DIFFERS: its results; the first step that differs: "step":8,' "$tmp/stdout"
must grep -q "^made by dtrain 0.9.9 " "$tmp/stdout"
accepts replay "$tmp/bad" --epochs 5
# a loss that a checkpoint hides, and a model that no epoch makes
hide=('"epoch":3,"train_loss":' '"epoch":3,"train_loss":1' '"epoch": 1,' '"epoch": 2,' '"step": 3,' '"step": 0,')
again "${hide[@]}"
names 65 "was saved with state_hash"
read -ra hashes < <(sed -nE 's/.*state_hash (\w+), its numbers have (\w+):.*/\1 \2/p' "$tmp/stderr")
again "${hide[@]}" "${hashes[@]}"
refuses 65 "epoch 2: checkpoint $tmp/bad/checkpoints/step-0000000006 has a loss of the epoch behind it" -- replay "$tmp/bad" --epochs 3
sum() { sha256sum "$1/model.safetensors" | cut -c 1-64; }
again "$(sum "$tmp/two")" "$(sum "$tmp/other")"
cp "$tmp/other/model.safetensors" "$tmp/bad"
refuses 80 "came out otherwise" -- replay "$tmp/bad" --random 1
must grep -q "DIFFERS: the model file" "$tmp/stdout"
accepts replay "$tmp/bad" --epochs 5
must grep -q "the model file was not compared" "$tmp/stdout"
# lines that no link binds: they are named, wherever they stand
line=$(grep '"step":8,' "$tmp/two/metrics.jsonl")
forge; echo "$line" | cat - "$tmp/two/metrics.jsonl" >"$tmp/bad/metrics.jsonl"; names 65 "epoch 0: the lines of its steps"
forge; sed -i '/"kind":"link".*kind[^,]*end/i '"$line" "$tmp/bad/metrics.jsonl"; names 65 "epoch 6: the lines of its steps"
forge; sed -i '/"step":8,/i '"${line/\"seconds\"/ \"seconds\"}" "$tmp/bad/metrics.jsonl"; names 65 "epoch 3: a line of metrics.jsonl has no member 'seconds'"
# checkpoints alone beside a certificate
forge; rm "$tmp/bad/metrics.jsonl"
accepts replay "$tmp/bad/run.cert" --epochs 5 --data synthetic:96
must grep -qE "^ *5 +step-0*12 .*agrees$" "$tmp/stdout"

# ---- other ways to train ----
for how in "--ema 0.5" "--net airbench --width-divisor 16 --lookahead 2 --augment alternate" "--holdout 16" "--save-shards" "--no-drop-remainder --batch 7" "--schedule cosine" "--bn sync --net vgg11 --width-divisor 16" "--strategy all=out"; do
    np=1; [ "$how" = "--strategy all=out" ] && np=2
    rm -rf "$tmp/way"
    accepts_on $np "${run[@]}" $how --epochs 3 --out "$tmp/way"
    accepts replay "$tmp/way"
    equal "$(grep -c "agrees$" "$tmp/stdout")" 3
done
rm -rf "$tmp/way"
accepts "${run[@]}" --grad-compress 2bit:0.001 --epochs 2 --out "$tmp/way"
accepts replay "$tmp/way" --epochs 2
must grep -qE "^ *2 +initial weights .*agrees" "$tmp/stdout"
rm -rf "$tmp/way"
accepts "${run[@]}" --exchange allreduce --epochs 2 --out "$tmp/way"
refuses 78 "2 of the epochs cannot be repeated" -- replay "$tmp/way"
refuses 78 "2 of the epochs cannot be repeated" -- replay "$tmp/way" --random 1
must grep -q "inexact: it cannot be repeated" "$tmp/stdout"
# a recipe that was changed by force, and a folder that goes on from another's checkpoint
rm -rf "$tmp/way"
accepts "${run[@]}" --epochs 2 --out "$tmp/way"
accepts "${run[@]}" --epochs 4 --lr 0.01 --resume auto --resume-force --out "$tmp/way"
accepts replay "$tmp/way"
must grep -q "^4 epochs, from the initial weights; recipe, data or program changed 1 times" "$tmp/stdout"
equal "$(grep -c "agrees$" "$tmp/stdout")" 4
# changed in the middle of an epoch, which no draw leaves out in silence; lines before such a start are bound
rm -rf "$tmp/way" "$tmp/bad"
accepts "${run[@]}" --max-steps 4 --out "$tmp/way"
accepts "${run[@]}" --epochs 3 --max-steps -1 --lr 0.01 --resume auto --resume-force --out "$tmp/way"
refuses 78 "1 of the epochs cannot be repeated" -- replay "$tmp/way" --random 1
must grep -qE "^ *2 .*not repeated: no checkpoint" "$tmp/stdout"
cp -r "$tmp/way" "$tmp/bad"; sed -i '/resumed/i '"$line" "$tmp/bad/metrics.jsonl"; names 65 "the lines of its steps"
# another exchange and other tensors' names, later: the steps before are the same
rm -rf "$tmp/way"
accepts "${run[@]}" --net vgg11 --width-divisor 16 --epochs 2 --out "$tmp/way"
accepts --out "$tmp/way" --resume auto --names kuangliu
accepts replay "$tmp/way" --epochs 2
accepts --out "$tmp/way" --resume auto --exchange allreduce --epochs 3
refuses 78 "--exchange allreduce is inexact, the run was not: give --exchange auto" -- replay "$tmp/way" --epochs 1
accepts replay "$tmp/way" --epochs 1-2 --exchange auto
# a run that began with a model, which may be gone when it is resumed
rm -rf "$tmp/way"
cp "$tmp/one/model.safetensors" "$tmp/begun.safetensors"
accepts "${run[@]}" --init "$tmp/begun.safetensors" --no-init-head --epochs 2 --out "$tmp/way"
refuses 78 "the run began with '$(sum "$tmp/one" | cut -c 1-16)'" -- replay "$tmp/way" --init "$tmp/other"
mv "$tmp/begun.safetensors" "$tmp/moved.safetensors"
accepts --out "$tmp/way" --resume auto --epochs 3
accepts replay "$tmp/way" --epochs 3 --init "$tmp/moved.safetensors"
must grep -q "^3 epochs, from the initial weights; on" "$tmp/stdout"
equal "$(grep -c "agrees$" "$tmp/stdout")" 2
accepts "${run[@]}" --resume "$(echo "$tmp"/one/checkpoints/step-*06)" --out "$tmp/later"
accepts certify --check "$tmp/later"
must grep -q "^consistent: 5 epochs, begins in the middle, after step 6" "$tmp/stdout"
accepts replay "$tmp/later" --epochs 4
equal "$(grep -c "agrees$" "$tmp/stdout")" 1
refuses 66 "has no chain" -- certify "$DTRAIN_SOURCE/docs/lab/runs/1.0.0/whole"
finish
