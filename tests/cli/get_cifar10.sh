#!/usr/bin/env bash
# scripts/get-cifar10 on archives made here: all or nothing, and every error named.
set -u
script=$DTRAIN_SOURCE/scripts/get-cifar10
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
bad=0
# try CODE TEXT ARGUMENTS...: exit code and a part of what is said
try() {
    local code=$1 text=$2
    shift 2
    timeout 60 "$script" "$@" >said 2>&1
    local got=$?
    if [ $got != "$code" ] || ! grep -qF -- "$text" said; then
        echo "get-cifar10 $*: exit $got, expected $code and '$text':"
        cat said
        bad=1
    fi
}
absent() { # nothing is left of a failed try
    if [ -n "$(ls -A "$1" 2>/dev/null)" ]; then
        echo "'$1' is not empty:"
        ls -lA "$1"
        bad=1
    fi
}

set_dir=cifar-10-batches-bin
mkdir -p made/$set_dir
for f in data_batch_1 data_batch_2 data_batch_3 data_batch_4 data_batch_5 test_batch; do
    truncate -s 30730000 made/$set_dir/$f.bin
done
echo names >made/$set_dir/batches.meta.txt
echo page >made/$set_dir/readme.html
tar -C made -czf whole.tgz $set_dir
truncate -s 30729999 made/$set_dir/test_batch.bin
tar -C made -czf short.tgz $set_dir
rm made/$set_dir/test_batch.bin
tar -C made -czf missing.tgz $set_dir
head -c 50000 whole.tgz >cut.tgz

try 65 "SHA-256" out --from whole.tgz
absent out
try 65 "no gzipped tar" out --from cut.tgz --no-check
absent out
try 65 "30729999 bytes, expected 30730000" out --from short.tgz --no-check
absent out
try 65 "holds no $set_dir/test_batch.bin" out --from missing.tgz --no-check
absent out
try 66 "nowhere.tgz" out --from nowhere.tgz
try 64 "--from needs a file" out --from
try 64 "unknown option '--form'" --form whole.tgz
try 64 "more than one folder" a b
try 73 "cannot make the folder" whole.tgz/out --from whole.tgz --no-check
CIFAR10_URL=file://$tmp/nowhere.tgz try 69 "cannot download" out
absent out

try 0 "is ready" out --from whole.tgz --no-check
[ "$(ls -A out)" = $set_dir ] || { ls -lA out; bad=1; }
[ "$(find out -name '*.bin' -size 30730000c | wc -l)" = 6 ] || { ls -lA out/*; bad=1; }
try 73 "exists already" out --from whole.tgz --no-check
exit $bad
