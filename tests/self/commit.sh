#!/usr/bin/env bash
# cmake/commit.cmake: after a commit the next build, without configuring, knows it; a build
# after that compiles nothing.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad() { echo "$1"; exit 1; }
cd "$dir"
export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t
git init -q .
echo /build >.gitignore
cat >main.c <<'C'
#include "commit.h"
#include <stdio.h>
int main(void) { return puts(DTRAIN_COMMIT) == EOF; }
C
cat >CMakeLists.txt <<C
cmake_minimum_required(VERSION 3.25)
project(t LANGUAGES C)
include($DTRAIN_SOURCE/cmake/commit.cmake)
add_executable(t main.c)
dt_knows_commit(t)
C
build() { cmake --build build >log 2>&1 || { cat log; exit 1; }; }
known() { [ "$(build/t)" = "$1" ] || bad "$2: build/t says $(build/t), not $1"; }
cmake -G Ninja -B build >log || { cat log; exit 1; }
build
known unknown "without a commit"
git add . && git commit -q -m one
build
known "$(git rev-parse --short=12 HEAD)" "the first commit"
git commit -q --allow-empty -m two
build
known "$(git rev-parse --short=12 HEAD)" "the second commit"
before=$(stat -c %Y.%Z build/t build/CMakeFiles/t.dir/main.c.o)
build
[ "$before" = "$(stat -c %Y.%Z build/t build/CMakeFiles/t.dir/main.c.o)" ] || bad "compiled although nothing changed"

# and dtrain itself says what its build has written
said=$("$DTRAIN_BIN" version | sed -n '1s/.*(git \(.*\))$/\1/p')
[ -n "$said" ] || bad "dtrain version names no commit"
grep -qF "\"$said\"" "$DTRAIN_BUILD_DIR/generated/commit.h" || bad "dtrain says $said, its header does not"
