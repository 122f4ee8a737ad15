# SPDX-License-Identifier: MIT
# The records of read.awk as a completion for fish.

function quoted(text) {
    gsub(/[\\']/, "\\\\&", text)
    return "'" text "'"
}

# A line for a menu: up to the first mark.
function brief(text) {
    sub(/(; | \().*/, "", text)
    return text
}

function value(kind, words) {
    if (kind == "words")
        return " -x -a " quoted(words)
    if (kind == "folder")
        return " -x -a '(__fish_complete_directories)'"
    if (kind == "file")
        return " -r -F"
    return kind == "flag" ? "" : " -x"
}

function option(of, name, kind, words, text,    when) {
    when = of == "*" ? "not __" called "_at" : "__" called "_at " of
    return "complete -c " program " -n " quoted(when) " -l " substr(name, 3) value(kind, words) \
        " -d " quoted(brief(text)) "\n"
}

BEGIN { FS = "\t" }

$1 == "program" {
    program = called = $2
    gsub(/-/, "_", called)
}
$1 == "command" {
    names = names " " $2
    commands = commands "complete -c " program " -n __" called "_at -a " $2 " -d " quoted(brief($4)) "\n"
    if ($3 != "")
        files = files "complete -c " program " -n " quoted("__" called "_at " $2) " -F\n"
}
$1 == "option" { options = options option($2, $3, $5, $6, $7) }

END {
    if (program == "")
        exit 1
    print "# Completion of " program " for fish, made from what its --help prints."
    print ""
    print "# Is this the command that options are wanted for? Without an argument: is none there yet?"
    print "function __" called "_at"
    print "    set -l words (commandline -opc)"
    print "    if test (count $argv) -eq 0"
    print "        test (count $words) -eq 1"
    print "    else"
    print "        test (count $words) -gt 1; and test $words[2] = $argv[1]"
    print "    end"
    print "end"
    print ""
    print "complete -c " program " -f"
    printf "%s", commands
    print "complete -c " program " -n __" called "_at -a help -d 'print the options of a command'"
    print "complete -c " program " -n __" called "_at -l help -d 'print the commands'"
    print "complete -c " program " -n __" called "_at -l version -d 'print the version'"
    print "complete -c " program " -n '__" called "_at help' -a '" substr(names, 2) "'"
    printf "%s%s", files, options
}
