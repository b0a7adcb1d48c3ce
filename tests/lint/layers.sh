#!/usr/bin/env bash
# Every #include against the list of who may see whom.
set -u
cd "$DTRAIN_SOURCE" || exit 1
bad=0

# folder: those whose public header it may include
declare -A may=(
    [base]=""
    [model]="base"
    [data]="base"
    [dist]="base"
    [report]="base"
    [options]="base model data dist"
    [format]="base model data"
    [store]="base model data dist options format report"
    [train]="base model data dist report options format store"
    [cli]="base model data dist options store train"
)
# folder of extra: the others there that it may include, beside all public headers of src
declare -A extra=(
    [launch]="" [pieces]="" [check]="" [watch]="" [split]="" [images]="" [costs]="" [engines]="" [exchanges]="" [compress]=""
    [lib]="compress watch"
    [convert]="pieces"
    [tools]="costs launch split images proof"
    [bench]="costs watch"
    [view]="convert watch proof"
    [proof]=""
)
# Of src, for extras: what a run and a plan hold, what a file of tensors is, and events of YAML.
shared=" train/run.h train/observer.h format/tensors.h model/plan.h options/events.h "
# Of src, for single extras: messages and sums; kernels and loops; sources and how images are resized; checkpoints; a run's output.
declare -A inside=([lib]=" dist/comm.h dist/fold.h " [split]=" dist/comm.h " [bench]=" dist/comm.h " [exchanges]=" dist/exchange_row.h " [compress]=" dist/fold.h "
    [costs]=" model/kernels/tiles/tiles.h model/loops.h " [engines]=" model/kernels/tiles/tiles.h "
    [images]=" data/source.h data/augment.h " [tools]=" base/topology.h store/checkpoint_internal.h "
    [pieces]=" train/session.h " [proof]=" store/checkpoint_internal.h data/source.h ")
for folder in "${!extra[@]}"; do
    while IFS=: read -r file line header; do
        other=${header%%/*}
        [ -e "src/$header" ] && { [ "$header" = "$other/$other.h" ] || [[ $shared${inside[$folder]-} = *" $header "* ]]; } && continue
        [[ " ${extra[$folder]} " = *" $other "* && $header = "$other/$other.h" ]] && continue
        [ -e "extra/$folder/$header" ] && continue
        echo "$file:$line: extra/$folder may not include $header"; bad=1
    done < <(grep -rnoE '#include *"[^"]+"' "extra/$folder" | sed -E 's/#include *"([^"]+)"/\1/')
done
for folder in "${!may[@]}"; do
    # Public headers are named by folder and file, private ones stay in their folder.
    while IFS=: read -r file line header; do
        other=${header%%/*}
        case " ${may[$folder]} " in
        *" $other "*) [ "$header" = "$other/$other.h" ] && continue ;;
        esac
        found=$(realpath -m --relative-to=. "$(dirname "$file")/$header")
        if [ -e "$found" ] && [[ $found = src/$folder/* ]] || [ "$header" = commit.h ]; then continue; fi
        echo "$file:$line: src/$folder may not include $header"; bad=1
    done < <(grep -rnoE '#include *"[^"]+"' "src/$folder" | sed -E 's/#include *"([^"]+)"/\1/')
done
for folder in src/*/ extra/*/; do
    name=$(basename "$folder")
    [ "${may[$name]+known}${extra[$name]+known}" = known ] || { echo "$folder is no folder of this list"; bad=1; }
done

# library headers: only where the library is at home
quarantine() { # regex, allowed path regex
    local hits
    hits=$(grep -rnE "#include *[<\"]$1" src extra | grep -vE "^$2")
    [ -z "$hits" ] || { echo "$hits"; echo "only $2 may include $1"; bad=1; }
}
quarantine 'mpi\.h' 'src/dist/[a-z_0-9]+\.(c|h):'
quarantine 'dist/comm\.h' 'extra/(bench/messages|lib/(post|world)|split/moves)\.c:' # it includes mpi.h
quarantine 'dist/exchange_row\.h' 'extra/exchanges/exchanges\.h:' # so does it
quarantine 'stb_image' 'extra/images/pixels\.c:'
quarantine 'xxhash' 'src/base/'
quarantine 'hwloc' 'src/base/'
quarantine 'yaml' 'src/options/events\.h:'
quarantine 'openssl' '(extra/(launch/wire|watch/channel|proof/digest)\.c|src/data/source_cifar\.[ch]):'
# dist is a library, and so are lib, exchanges and moves.c: what a process does with signals, its environment,
# its output and its end is the program's. Their words go to the log of src/base.
process='\b(signal|sigaction|setenv|putenv|prctl|v?f?printf|puts|fputs|fputc|write|_?exit|abort|stdout|stderr|STD(OUT|ERR)_FILENO)\b'
for file in src/dist/*.[ch] extra/lib/*.[ch] extra/exchanges/*.[ch] extra/split/moves.c; do
    if sed -E 's@/\*.*\*/@@; s@^ *(/\*|\*).*@@' "$file" | grep -nE "$process"; then
        echo "$file leaves that to the program"; bad=1
    fi
done
if grep -nE '#include *<mpi\.h>' src/dist/dist.h; then
    echo "dist.h must not include mpi.h"; bad=1
fi
exit $bad
