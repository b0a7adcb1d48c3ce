#!/usr/bin/env bash
# base <- model, data, dist <- train <- cli: greps every #include against this list.
set -u
cd "$DTRAIN_SOURCE" || exit 1
bad=0

# folder: public headers of other folders that it may include
allow_base=""
allow_model="base"
allow_data="base"
allow_dist="base"
allow_train="base model data dist"
allow_cli="base model data dist train"

for folder in base model data dist train cli; do
    var="allow_$folder"
    for other in base model data dist train cli; do
        [ "$other" = "$folder" ] && continue
        case " ${!var} " in *" $other "*) continue ;; esac
        if grep -rnE "#include *\"($other/)?$other\.h\"" "src/$folder"; then
            echo "src/$folder may not include $other.h"; bad=1
        fi
    done
    # private headers stay at home
    for header in $(find src -name '*.h' ! -path "src/$folder/*" -printf '%f\n'); do
        name=${header%.h}
        case " base model data dist train cli " in *" $name "*) continue ;; esac
        if grep -rnE "#include *\"([a-z]+/)?$header\"" "src/$folder"; then
            echo "src/$folder includes a private header: $header"; bad=1
        fi
    done
done

# library headers: only where the library is at home
quarantine() { # regex, allowed path regex
    local hits
    hits=$(grep -rnE "#include *[<\"]$1" src | grep -vE "^$2")
    [ -z "$hits" ] || { echo "$hits"; echo "only $2 may include $1"; bad=1; }
}
quarantine 'mpi\.h' 'src/dist/[a-z_0-9]+\.(c|h):'
quarantine '(oneapi/dnnl/)?dnnl' 'src/model/kernels/onednn[a-z_]*\.[ch]:'
quarantine '(openblas/)?cblas' 'src/model/kernels/blas\.c:'
quarantine 'stb_image' 'src/data/pixels\.c:'
quarantine 'xxhash' 'src/base/'
quarantine 'hwloc' 'src/base/'
quarantine 'yaml' 'src/cli/'
quarantine 'openssl' 'src/data/source_cifar10\.c:'
if grep -nE '#include *<mpi\.h>' src/dist/dist.h; then
    echo "dist.h must not include mpi.h"; bad=1
fi
exit $bad
