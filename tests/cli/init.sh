#!/usr/bin/env bash
# --init and --no-init-head: what a run that starts from a model file takes from it.
. "$DTRAIN_SOURCE/tests/support/cli.bash" || exit 1
accepts "${tiny[@]}" --out "$tmp/trained"
accepts "${tiny[@]}" --max-steps 0 --out "$tmp/fresh"
trained=$tmp/trained/model.safetensors fresh=$tmp/fresh/model.safetensors
start=("${tiny[@]}" --max-steps 0)

# the same weights, but the classifier's matrix is [20, 16]: of other classes
other=$tmp/other.safetensors
perl -0777 -pe 's/("classifier\.weight":\{[^}]*"shape":)\[10,32\]/$1\[20,16\]/' "$trained" >"$other"
must test "$(cmp -l "$trained" "$other" | wc -l)" = 3 # bytes

# differ A B: names of tensors that are not the same, the classifier's first
differ() {
    python3 -c 'import json, struct, sys
def tensors(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    for name, t in json.loads(data[8:8 + n]).items():
        if name != "__metadata__" and t["dtype"] == "F32":
            begin, end = t["data_offsets"]
            yield name, data[8 + n + begin:8 + n + end]
a, b = dict(tensors(sys.argv[1])), dict(tensors(sys.argv[2]))
assert a.keys() == b.keys()
print(*sorted(k for k in a if a[k] != b[k]))' "$1" "$2"
}
head="classifier.bias classifier.weight"
must test "$(differ "$trained" "$fresh" | wc -w)" -gt 20

refuses 65 "$other" "[20, 16]" "--no-init-head" -- "${start[@]}" --init "$other" --out "$tmp/no"
must test ! -e "$tmp/no/model.safetensors"
for np in $ranks; do
    accepts_on "$np" "${start[@]}" --init "$other" --no-init-head --out "$tmp/own.$np"
done
must cmp "$tmp/own.1/model.safetensors" "$tmp/own.${ranks##* }/model.safetensors"
must test "$(differ "$tmp/own.1/model.safetensors" "$trained")" = "$head"
body=$(differ "$tmp/own.1/model.safetensors" "$fresh")
must test "$body" = "$(differ "$trained" "$fresh" | tr ' ' '\n' | grep -v '^classifier' | paste -sd' ')"

ranks=1 # more of them have been seen to do the same

# the head of a file that fits is the file's
accepts "${start[@]}" --init "$trained" --out "$tmp/whole"
must test -z "$(differ "$tmp/whole/model.safetensors" "$trained")"

# the rest of the file must fit all the same, and then the option is no remedy
perl -0777 -pe 's/"features\.0\.bias"/"features.0.bais"/' "$other" >"$tmp/bad.safetensors"
refuses 65 "'features.0.bias' is missing" "choose --net" -- "${start[@]}" --init "$tmp/bad.safetensors" \
    --no-init-head --out "$tmp/no"
# weights that no training leaves: no learning rate is to blame
perl -e 'binmode STDOUT; local $/; open my $f, "<:raw", $ARGV[0]; my $all = <$f>;
    $all =~ /"classifier.weight":\{[^}]*\[(\d+),(\d+)\]\}/ or die; my $n = unpack "Q<", $all;
    substr($all, 8 + $n + $1, $2 - $1) = pack("f<", 3e38) x (($2 - $1) / 4); print $all' \
    "$trained" >"$tmp/huge.safetensors"
refuses 79 "no weight has changed yet" "the model $tmp/huge.safetensors gives it" -- "${tiny[@]}" \
    --init "$tmp/huge.safetensors" --out "$tmp/no"
# eval wants all of it, whatever is said of training
refuses 65 "[20, 16]" -- eval "$other" --data synthetic:64 --no-init-head
finish
