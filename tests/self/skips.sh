#!/usr/bin/env bash
# scripts/suite.sh on a suite of its own: all that is left out is counted and named once, and
# a skip that is not on the list fails the run.
set -u
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$DTRAIN_SOURCE/scripts/suite.sh"
cat >"$dir/CTestTestfile.cmake" <<'END_OF_TESTS'
add_test(good true)
add_test(part sh -c "echo; echo 'SKIPPED: bf16: it is <not> here'; echo 'SKIPPED: bf16: it is <not> here'; echo on")
add_test(whole sh -c "printf 'SKIPPED: no rights'; exit 99") # and no end of a line
add_test(silent sh -c "exit 99")
set_tests_properties(whole silent PROPERTIES SKIP_RETURN_CODE 99)
add_test(off false)
set_tests_properties(off PROPERTIES DISABLED TRUE)
add_test(bad sh -c "echo SKIPPED: in vain; exit 1")
END_OF_TESTS
printf '# what may be\npart: bf16: .*\nwhole: no rights\n' >"$dir/list"
bad=0
# says TEXT CODE TESTS: the sum of a run of these tests, and the codes of ctest and of the list
says() {
    local text=$1 codes=$2 said
    suite_passed=0 suite_failed=0 suite_skips=""
    said=$(cd "$dir" && status=0 && { suite_run . -R "$3" >/dev/null 2>&1 || status=1; suite_end list || status=$status,1; echo "codes $status"; })
    if [ "$said" != "$text"$'\n'"codes $codes" ]; then
        printf 'for %s:\n%s\nnot:\n%s\ncodes %s\n' "$3" "$said" "$text" "$codes"
        bad=1
    fi
}
says "1 passed, 0 failed, 0 skipped" 0 '^(good|off)$'
says "skipped: part: bf16: it is <not> here
skipped: whole: no rights
2 passed, 0 failed, 2 skipped" 0 '^(good|part|whole)$'
says "skipped, but not on the list list: silent: gives no reason
1 passed, 0 failed, 1 skipped" 0,1 '^(good|silent)$'
says "skipped, but not on the list list: bad: in vain
0 passed, 1 failed, 1 skipped" 1,1 '^bad$'
# A test that leaves with 99 says why.
for file in $(grep -rlE '\bexit 99' "$DTRAIN_SOURCE"/tests --include=*.sh --include=*.bash); do
    [ "${file##*/}" = skips.sh ] || grep -q 'SKIPPED: ' "$file" || { echo "$file leaves with 99 and never says SKIPPED"; bad=1; }
done
exit $bad
