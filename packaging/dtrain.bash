# bash completion of dtrain. Made from the program's tables by packaging/write.awk.
_dtrain() {
    # "--net=v" is three words: "=" is one of its own
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} words='' options
@COMMANDS@
    if [ "$word" = = ]; then
        word=''
    elif [ "$before" = = ]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    case ${COMP_WORDS[1]} in
@OPTIONS@
    esac
    case $before in
@VALUES@
    help) words=$commands ;;
    *) [[ $word != -* ]] || words=$options ;;
    esac
    [ "$COMP_CWORD" != 1 ] || words="$commands $options"
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word") # none: names of files
}
complete -o bashdefault -o default -F _dtrain dtrain
