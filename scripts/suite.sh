# Sourced by runtests and proofs/asan: run ctest, and count what was left out. Not a program
# of its own. A test says "SKIPPED: reason" on a line for each part that it leaves out, and
# leaves with 99 where that is all of it.

suite_passed=0 suite_failed=0 suite_skips=""

# suite_run PRESET-FOLDER ARGUMENTS OF CTEST...: returns ctest's code
suite_run() {
    local folder=$1 report status=0
    shift
    report=$(mktemp)
    ctest --test-dir "$folder" --output-on-failure --test-output-size-passed 1000000 \
        --output-junit "$report" "$@" || status=$?
    suite_count "$report"
    rm -f "$report"
    return $status
}

# suite_count FILE: what a report of ctest in JUnit's form says, added to the sums
suite_count() {
    local passed failed
    read -r passed failed < <(awk '
        / status="run"/ { passed++ }
        / status="fail"/ { failed++ }
        END { print passed + 0, failed + 0 }' "$1")
    suite_passed=$((suite_passed + passed))
    suite_failed=$((suite_failed + failed))
    # The same reason of all ranks, or of all cases of a test, is one.
    suite_skips+=$(awk '
        function end() { if (whole && !said) print name ": gives no reason" }
        /<testcase name="/ { end(); name = $0; sub(/.*<testcase name="/, "", name); sub(/".*/, "", name)
                             whole = 0; said = 0 }
        / status="notrun"/ { whole = 1 }
        / status="disabled"/ { whole = 0 }
        /SKIPPED: / { said = 1; sub(/.*SKIPPED: /, ""); sub(/<\/system-out>.*/, ""); gsub(/&apos;/, "\047")
                      gsub(/&quot;/, "\""); gsub(/&lt;/, "<"); gsub(/&gt;/, ">"); gsub(/&amp;/, "\\&")
                      print name ": " $0 }
        END { end() }' "$1" | sort -u; echo .)
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
