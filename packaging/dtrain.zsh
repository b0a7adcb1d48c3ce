#compdef dtrain
# zsh completion of dtrain. Made from the program's tables by packaging/write.awk.
local options name
local -A spec=(
@VALUES@
)
local -a wanted commands=(
@COMMANDS@
)
case $words[2] in
@OPTIONS@
esac
for name in ${=options}; do wanted+=($spec[$name]); done
_arguments $wanted '1:command:{ _describe command commands }' '*:file:_files'
