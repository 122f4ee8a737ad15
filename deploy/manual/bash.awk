# SPDX-License-Identifier: MIT
# The records of read.awk as a completion for bash, without the package bash-completion. No word that --help shows as a
# name has a quote or a space.

BEGIN { FS = "\t" }

$1 == "program" { program = $2 }
$1 == "command" {
    commands = commands " " $2
    if ($3 != "")
        positional = positional "|" $2
}
$1 == "option" && $2 == "*" { common = common " " $3 }
$1 == "option" && $2 != "*" { options[$2] = options[$2] " " $3 }
$1 == "option" && $5 != "flag" {
    value = $5 ($6 == "" ? "" : " " $6)
    values = values "    '" $2 " " $3 "') echo '" value "' ;;\n"
}

END {
    if (program == "")
        exit 1
    name = "_" program
    gsub(/-/, "_", name)
    count = split(substr(commands, 2), list, " ")
    print "# Completion of " program " for bash, made from what its --help prints."
    print ""
    print name "_options() {"
    print "    case $1 in"
    for (i = 1; i <= count; i++)
        print "    " list[i] ") echo '" substr(options[list[i]] common, 2) "' ;;"
    print "    esac"
    print "}"
    print ""
    print "# The kind of an option's value, and its words."
    print name "_value() {"
    print "    case \"$1 ${2//_/-}\" in"
    printf "%s", values
    print "    *) [[ $1 == '*' ]] || " name "_value '*' \"$2\" ;;"
    print "    esac"
    print "}"
    print ""
    print name "() {"
    print "    local word=${COMP_WORDS[COMP_CWORD]} at=$((COMP_CWORD - 1)) command=${COMP_WORDS[1]} kind words"
    print "    COMPREPLY=()"
    print "    if ((COMP_CWORD == 1)); then"
    print "        mapfile -t COMPREPLY < <(compgen -W '" substr(commands, 2) " help --help --version' -- \"$word\")"
    print "        return"
    print "    fi"
    print "    if [[ $command == help ]]; then"
    print "        mapfile -t COMPREPLY < <(compgen -W '" substr(commands, 2) "' -- \"$word\")"
    print "        return"
    print "    fi"
    print "    # bash ends words at = and : too: the option stands before what they divide."
    print "    if [[ $word == [=:] ]]; then"
    print "        word='' at=$COMP_CWORD"
    print "    fi"
    print "    while [[ ${COMP_WORDS[at]} == : && $at -gt 2 ]]; do at=$((at - 2)); done"
    print "    [[ ${COMP_WORDS[at]} != = ]] || at=$((at - 1))"
    print "    read -r kind words < <(" name "_value \"$command\" \"${COMP_WORDS[at]}\")"
    print "    if [[ -z $kind && $word == -* ]]; then"
    print "        kind=words words=$(" name "_options \"$command\")"
    print "    elif [[ -z $kind && $command == @(" substr(positional, 2) ") ]]; then"
    print "        kind=file"
    print "    fi"
    print "    case $kind in"
    print "    words) mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\") ;;"
    print "    folder) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- \"$word\") ;;"
    print "    file) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$word\") ;;"
    print "    esac"
    print "}"
    print ""
    print "complete -F " name " " program
}
