#!/usr/bin/env bash
# The harness can fail: a cmocka test with a false assertion, a crash, and a hang under
# `timeout` must all be seen as failures.
set -u
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cat >"$dir/t.c" <<'C'
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
static void wrong(void **s) { (void)s; assert_int_equal(1, 2); }
static void crash(void **s) { (void)s; abort(); }
int main(int argc, char **argv)
{
    (void)argv;
    const struct CMUnitTest a[] = {cmocka_unit_test(wrong)}, b[] = {cmocka_unit_test(crash)};
    return argc > 1 ? cmocka_run_group_tests(b, NULL, NULL) : cmocka_run_group_tests(a, NULL, NULL);
}
C
cc -std=c11 -o "$dir/t" "$dir/t.c" -lcmocka || exit 1
"$dir/t" >/dev/null 2>&1 && { echo "a false assertion passed"; exit 1; }
"$dir/t" crash >/dev/null 2>&1 && { echo "a crash passed"; exit 1; }
timeout -k 1 1 sleep 30 && { echo "a hang passed"; exit 1; }
[ -x "$DTRAIN_BIN" ] || { echo "no executable at $DTRAIN_BIN"; exit 1; }
"$DTRAIN_BIN" --no-such-option >/dev/null 2>&1 && { echo "a wrong option passed"; exit 1; }
exit 0
