# SPDX-License-Identifier: MIT
# The records of read.awk as a completion for zsh, by its _arguments.

function quoted(text) {
    gsub(/'/, "'\\''", text)
    return "'" text "'"
}

# A line for a menu: up to the first mark.
function brief(text) {
    sub(/(; | \().*/, "", text)
    gsub(/[][\\]/, "\\\\&", text)
    return text
}

function action(kind, words) {
    if (kind == "words")
        return "(" words ")"
    if (kind == "folder")
        return "_files -/"
    return kind == "file" ? "_files" : ""
}

function option(name, argument, kind, words, text,    spec) {
    spec = (text ~ /several times/ ? "*" : "") name
    if (kind == "flag")
        return quoted(spec "[" brief(text) "]")
    gsub(/:/, "\\:", argument)
    return quoted(spec "=[" brief(text) "]:" argument ":" action(kind, words))
}

BEGIN { FS = "\t" }

$1 == "program" { program = $2 }
$1 == "command" {
    commands[++count] = $2
    summaries[$2] = brief($4)
    words_of = split($3, words, " ")
    for (i = 1; i <= words_of; i++)
        specs[$2] = specs[$2] " \\\n            " quoted(i ":" words[i] ":_files")
}
$1 == "option" && $2 == "*" { common = common "\n        " option($3, $4, $5, $6, $7) }
$1 == "option" && $2 != "*" { specs[$2] = specs[$2] " \\\n            " option($3, $4, $5, $6, $7) }

END {
    if (program == "")
        exit 1
    print "#compdef " program
    print "# Completion of " program " for zsh, made from what its --help prints."
    print ""
    print "_" program "() {"
    print "    local curcontext=$curcontext state line"
    print "    local -a commands common state_descr"
    print "    typeset -A opt_args"
    print "    commands=("
    for (i = 1; i <= count; i++)
        print "        " quoted(commands[i] ":" summaries[commands[i]])
    print "        " quoted("help:print the options of a command")
    print "    )"
    print "    common=(" common
    print "    )"
    print "    _arguments -C '(- *)--help[print the commands]' '(- *)--version[print the version]' \\"
    print "        '1:command:->command' '*::argument:->argument' && return"
    print "    case $state in"
    print "    command) _describe -t commands command commands ;;"
    print "    argument)"
    print "        case $words[1] in"
    print "        help) _describe -t commands command commands ;;"
    for (i = 1; i <= count; i++) {
        print "        " commands[i] ")"
        print "            _arguments $common" specs[commands[i]]
        print "            ;;"
    }
    print "        esac"
    print "        ;;"
    print "    esac"
    print "}"
    print ""
    print "_" program " \"$@\""
}
