# Sourced by runtests and proofs/asan: run ctest, and count what was left out. Not a program
# of its own. A test says "SKIPPED: reason" on a line for each part that it leaves out, and
# leaves with 99 where that is all of it.

suite_passed=0 suite_failed=0 suite_skips=""

# suite_run PRESET-FOLDER ARGUMENTS OF CTEST...: returns ctest's code
suite_run() {
    local folder=$1 report status
    shift
    report=$(mktemp)
    rm -f "$folder/Testing/Temporary/LastTest.log"
    (cd "$folder" && ctest --output-on-failure "$@") | tee "$report"
    status=${PIPESTATUS[0]}
    suite_count "$report" "$folder/Testing/Temporary/LastTest.log"
    rm -f "$report"
    return "$status"
}

# suite_count REPORT LOG: what ctest says of each test, and all that the tests say, added to the
# sums. (Its reports for machines are not CMake 3.18's.)
suite_count() {
    local passed failed
    read -r passed failed < <(awk '
        / Test +#[0-9]+: .* Passed / { passed++ }
        / Test +#[0-9]+: .*\*\*\*/ && !/\*\*\*(Skipped|Not Run \(Disabled\))/ { failed++ }
        END { print passed + 0, failed + 0 }' "$1")
    suite_passed=$((suite_passed + passed))
    suite_failed=$((suite_failed + failed))
    # The same reason of all ranks, or of all cases of a test, is one.
    suite_skips+=$(awk '
        FNR == 1 { file++ }
        file == 1 && / Test +#[0-9]+: .*\*\*\*Skipped/ { sub(/.* Test +#[0-9]+: /, ""); whole[$1] = 1 }
        file == 2 && !output && /^[0-9]+\/[0-9]+ Test: / { name = $3 }
        file == 2 && /^Output:$/ { output = 1 }
        file == 2 { last = sub(/<end of output>$/, "") }
        file == 2 && output && sub(/.*SKIPPED: /, "") { said[name] = 1; print name ": " $0 }
        last { output = 0 }
        END { for (name in whole) if (!(name in said)) print name ": gives no reason" }' "$1" "$2" |
        sort -u; echo .)
    suite_skips=${suite_skips%.}
}

# suite_end LIST: print the sums; fails for a skip that no line of LIST allows. A line of LIST
# is an extended regular expression for a whole "test: reason"; lines with # are comments.
suite_end() {
    local skip count=0 unexpected=0
    while IFS= read -r skip; do
        [ -n "$skip" ] || continue
        count=$((count + 1))
        if grep -qxE -f <(grep -v '^#' "$1") <<<"$skip"; then
            echo "skipped: $skip"
        else
            echo "skipped, but not on the list $1: $skip"
            unexpected=$((unexpected + 1))
        fi
    done <<<"$suite_skips"
    echo "$suite_passed passed, $suite_failed failed, $count skipped"
    [ $unexpected = 0 ]
}
