#!/usr/bin/env bash
# Each lint fails on a fault of its kind, put into a copy of the source, and says where.
set -u
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$DTRAIN_SOURCE" || exit 1
mkdir "$dir/good"
cp -r src extra tests docs scripts proofs bench configs cmake packaging examples .ci ./*.md ./CMake* LICENSE quickstart runtests "$dir/good/"
mkdir "$dir/good/data"
cp data/README.md "$dir/good/data/"
cp -r "$dir/good" "$dir/copy"
bad=0

# lint NAME: its words, with its exit code
lint() { DTRAIN_SOURCE=$dir/copy bash "$DTRAIN_SOURCE/tests/lint/$1.sh" 2>&1; }

# finds LINT FILE WORDS LINE...: LINEs put behind FILE; the lint must fail with WORDS
finds() {
    local name=$1 file=$2 words=$3 said
    shift 3
    printf '%s\n' "$@" >>"$dir/copy/$file"
    said=$(lint "$name") && { echo "$name passes $file with: $1"; bad=1; }
    grep -qF -- "$words" <<<"$said" || { printf '%s does not say "%s" but:\n%s\n' "$name" "$words" "$said"; bad=1; }
    if [ -e "$dir/good/$file" ]; then cp "$dir/good/$file" "$dir/copy/$file"; else rm "$dir/copy/$file"; fi
}
for name in references vocabulary sizes layers circles front_door configs; do
    lint "$name" >"$dir/log" || { echo "$name fails on a good copy:"; cat "$dir/log"; bad=1; }
done

no=no # names of files that are not there, and words that are no more, are not written out here
plan=src/model/plan.c
finds references $plan "$plan:" "/* as in ${no}where.c */"
finds references $plan "names ${no}where.c" '/* line one,' " * and ${no}where.c. */"
finds references $plan "names src/model/${no}where.c" "/* src/model/${no}where.c has it */"
finds references $plan "names tests/golden/${no}where.md" "// see tests/golden/${no}where.md"
finds references $plan "no section 77" "/* docs/numerics.md section 7""7 */"
finds references $plan "names dt_${no}where" "/* see dt_${no}where */"
finds references tests/cli/config.sh "names ${no}where.sh" "true # ${no}where.sh does it"
finds references tests/cli/config.sh "names scripts/${no}where" "\"\$DTRAIN_SOURCE\"/scripts/true; scripts/${no}where"
finds references README.md "leads to docs/${no}where.md" "[text](docs/${no}where.md)"
finds references README.md "no heading #${no}where" "[text](docs/numerics.md#${no}where)"
finds references docs/lab/results.md "names scripts/${no}where" "\`scripts/${no}where\`"
finds references docs/lab/results.md "names op_${no}where.c" "as \`op_${no}where.c\` does"
finds references "src/model/${no}where.c" "does not begin with" 'int x;'
finds vocabulary $plan "$plan:" '/* no''body */'
finds vocabulary README.md "that of" 'a sum, as' 'that' 'of one rank'
finds sizes $plan "a line of 101 characters" "/* $(yes x | head -n 95 | tr -d '\n') */"
finds sizes $plan "a function of 62 lines" "int f(int x)" "{" "$(yes '    x++;' | head -n 60)" "}"
finds sizes $plan "lines, at most 490" "$(yes '/**/' | head -n 490)"
finds sizes examples/tf_adapter.c "lines, at most 150" "$(yes '/**/' | head -n 150)"
finds sizes src/data/data.h "src/data/ has" "$(yes '/**/' | head -n 12000)"
finds sizes $plan "banned functions" "int f(const char *x) { return atoi(x); }"
finds sizes $plan "unfinished" "/* TO""DO */"
finds layers $plan "src/model may not include" '#include "dist/dist.h"'
finds layers src/train/run.h "may include mpi" '#include <mpi.h>'
finds layers src/dist/comm.c "leaves that to the program" 'static void say(void) { printf("x"); } /* so */'
finds layers extra/split/moves.c "leaves that to the program" 'static void say(void) { printf("x"); } /* so */'
finds layers extra/split/grid.c "may include dist/comm" '#include "dist/comm.h"'
finds circles src/model/net.h "${plan%.c} -> " '#include "plan.h"'
finds configs configs/smoke.yaml "without an exponent" 'lr: 1e-4'
finds front_door README.md "words, at most 1100" "$(yes word | head -n 1100 | tr '\n' ' ')"
finds front_door README.md "not eleven" '`src/model/net.c`'
finds front_door $plan "lines, at most 3000" "$(yes '/**/' | head -n 3000)"
rm "$dir/copy/data/README.md"
finds front_door src/data/data.h "data/README.md is missing" ""
cp "$dir/good/data/README.md" "$dir/copy/data/"
finds front_door src/dist/dist.h "no file for exchange" '#define DT_EXCHANGE_LIST(X) X(nothing)'
exit $bad
