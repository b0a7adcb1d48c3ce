# Sourced by scripts at their beginning: where --help is asked for, the comment at their head.
export LC_ALL=C # numbers have a point, in awk, printf and sort, whatever the user's language has
case ${1:-} in
--help | -h)
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
esac
