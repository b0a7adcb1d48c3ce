# write.awk - the man page, or completions for bash or zsh, from the rows that `dtrain help table` and
# `dtrain launch --help` print.   usage: awk -v form=man|bash|zsh -f write.awk ROWS TEMPLATE
# A line @NAME@ of the template becomes what write_NAME says of all rows.
BEGIN { FS = "\t" }
FNR == 1 { file++ }
file == 1 && $1 == "command" { command[++commands] = $2; listed[$2] = $3; about[$2] = $4 }
file == 1 && $1 == "option" { take_option($2, $3, $4, $5, $6, $7, $8) }
file == 1 && $1 == "exit" { code[++codes] = $2; reason[codes] = $3 }
file == 1 && /^  --[a-z]/ { # a row of launch's help: name and value, two blanks, what it is
    match($0, /^  --[a-z-]+/)
    name = substr($0, 5, RLENGTH - 4)
    rest = substr($0, RLENGTH + 2)
    value = rest ~ /^ / ? "" : rest
    sub(/  .*/, "", value)
    sub(/^[^ ]*  +/, "", rest)
    sub(/^ +/, "", rest)
    if (!(name in help)) take_option(name, value, "", "", " launch", "Starting on several hosts", rest)
}
file == 2 && /^@[A-Z]+@$/ {
    if ($0 == "@COMMANDS@") write_commands()
    else if ($0 == "@OPTIONS@") write_options()
    else if ($0 == "@VALUES@") write_values()
    else if ($0 == "@CODES@") for (i = 1; i <= codes; i++) tagged(".B " code[i], reason[i])
    next
}
file == 2 { print }

# metavar "": takes no value; "[no]": a flag; commands: those that alone take it, "": training's
function take_option(name, value, standard, words, takers, heading, text) {
    option[++options] = name
    metavar[name] = value; usual[name] = standard; choices[name] = words
    commands_of[name] = takers; group[name] = heading; help[name] = text
}
function has(words, word) { return index(words " ", " " word " ") > 0 }
# What `dtrain COMMAND --help` shows, and what every command takes.
function takes(c, name, field) {
    field = name
    gsub(/-/, "_", field)
    if (group[name] == "") return 1
    if (has(commands_of[name], c) || has(listed[c], field)) return 1
    return commands_of[name] == "" && (c == "train" || c == "launch")
}
# All spellings of the options of a command.
function spellings(c, i, name, all) {
    for (i = 1; i <= options; i++) {
        name = option[i]
        if (takes(c, name)) all = all " --" name (metavar[name] == "[no]" ? " --no-" name : "")
    }
    return substr(all, 2)
}
function names(i, all) {
    for (i = 1; i <= commands; i++) all = all " " command[i]
    return substr(all, 2)
}

function roff(text) { gsub(/\\/, "\\e", text); gsub(/-/, "\\-", text); gsub(/'/, "\\(aq", text); return text }
function tagged(head, text) { printf ".TP\n%s\n%s\n", head, roff(text) }
function zsh(text) { gsub(/\[|\]|:/, "\\\\&", text); gsub(/'/, "'\\''", text); return text }

function write_commands(i) {
    if (form == "bash") printf "    local commands='%s'\n", names()
    for (i = 1; i <= commands; i++)
        if (form == "man") tagged(".B " command[i], about[command[i]])
        else if (form == "zsh") printf "    '%s:%s'\n", command[i], zsh(about[command[i]])
}
# man: all options by their groups; else: a case for each command
function write_options(i, name, last, text) {
    for (i = 1; i <= commands && form != "man"; i++)
        if (command[i] != "train") printf "    %s) options='%s' ;;\n", command[i], spellings(command[i])
    if (form != "man") printf "    *) options='%s' ;;\n", spellings("train")
    for (i = 1; i <= options && form == "man"; i++) {
        name = option[i]
        if (group[name] != last) printf ".SS %s\n", last = group[name]
        text = (commands_of[name] && commands_of[name] != " launch" ? substr(commands_of[name], 2) ": " : "") help[name]
        if (choices[name]) text = text "; one of:" choices[name]
        if (usual[name] != "" && usual[name] != "false") text = text " (default: " usual[name] ")"
        if (metavar[name] == "[no]") tagged(".BR \\-\\-" roff(name) ", \\-\\-no\\-" roff(name), text)
        else if (metavar[name] == "") tagged(".B \\-\\-" roff(name), text)
        else tagged(".BI \\-\\-" roff(name) "= " roff(metavar[name]), text)
    }
}
# Of options that take one of a few words, the words; of zsh's, all that it knows of an option.
function write_values(i, name, value) {
    for (i = 1; i <= options; i++) {
        name = option[i]
        value = metavar[name] ~ /FILE|DIR|PATH|FROM|PROGRAM/ ? "_files" : " "
        if (choices[name]) value = "(" substr(choices[name], 2) ")"
        if (form == "bash" && choices[name])
            printf "    --%s) words='%s' ;;\n", name, substr(choices[name], 2)
        else if (form == "zsh" && metavar[name] == "[no]")
            printf "    --%s '--%s[%s]'\n    --no-%s '--no-%s[not: %s]'\n", name, name, zsh(help[name]), name, name, zsh(help[name])
        else if (form == "zsh")
            printf "    --%s '--%s%s[%s]%s'\n", name, name, metavar[name] == "" ? "" : "=", zsh(help[name]),
                metavar[name] == "" ? "" : ":" zsh(metavar[name]) ":" value
    }
}
