#!/usr/bin/env bash
# scripts/get-cifar10 on archives made here: all or nothing, and every error named.
set -u
script=$DTRAIN_SOURCE/scripts/get-cifar10
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 1
bad=0
timeout=$(command -v timeout)
# try CODE TEXT ARGUMENTS...: exit code and a part of what is said; $path: other programs
try() {
    local code=$1 text=$2
    shift 2
    PATH=${path:-$PATH} "$timeout" 60 "$script" "$@" >said 2>&1
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
try 64 "unknown option '--form'" --form whole.tgz
try 73 "cannot make the folder" whole.tgz/out --from whole.tgz --no-check
CIFAR10_URL=file://$tmp/nowhere.tgz try 69 "cannot download" out
absent out

try 0 "is ready" out --from whole.tgz --no-check
[ "$(ls -A out)" = $set_dir ] || { ls -lA out; bad=1; }
[ "$(find out -name '*.bin' -size 30730000c | wc -l)" = 6 ] || { ls -lA out/*; bad=1; }
try 73 "exists already" out --from whole.tgz --no-check

# A bare machine, whose dpkg-query and apt-get are stand-ins: curl comes with its package.
mkdir bare
for program in bash cat dirname env grep gzip id ln mkdir mktemp mv realpath rm sha256sum stat tar touch; do
    ln -s "$(command -v $program)" bare
done
cat >bare/dpkg-query <<END
#!/usr/bin/env bash
[ -e "$tmp/installed-\${!#}" ] && echo install ok installed
END
cat >bare/sudo <<'END'
#!/usr/bin/env bash
exec "$@"
END
cat >bare/apt-get <<END
#!/usr/bin/env bash
for word in "\$@"; do
    case \$word in
    curl) ln -s "$tmp/curl" "$tmp/bare/curl" && touch "$tmp/installed-curl" ;;
    ca-certificates) touch "$tmp/installed-ca-certificates" ;;
    esac
done
END
cat >curl <<END
#!/usr/bin/env bash
[ -e "$tmp/installed-ca-certificates" ] || exit 77
while [ "\$1" != --output ]; do shift; done
exec cat "$tmp/whole.tgz" >"\$2"
END
chmod +x bare/dpkg-query bare/sudo bare/apt-get curl
export CIFAR10_URL=https://localhost/whole.tgz
path=$tmp/bare try 69 "packages missing: curl ca-certificates" new --no-check --no-install
absent new
path=$tmp/bare try 0 "is ready" new --no-check
exit $bad
