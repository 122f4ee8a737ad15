# SPDX-License-Identifier: MIT
# The records of read.awk as a man page; behind roff.awk.

function section(name) {
    print ".SH " name
}

function option_text(name, argument, text) {
    print ".TP"
    if (argument ~ /\|/)
        argument = " " escaped(argument)
    else if (argument != "")
        argument = " \\fI" escaped(argument) "\\fR"
    print "\\fB" escaped(name) "\\fR" argument
    print escaped(text)
}

BEGIN { FS = "\t" }

$1 == "program" { program = $2; version = $3; summary = $4 }
$1 == "command" { commands[++count] = $2; positional[$2] = $3; summaries[$2] = $4 }
$1 == "option" {
    of = $2
    number[of]++
    names[of, number[of]] = $3
    arguments[of, number[of]] = $4
    texts[of, number[of]] = $7
}
$1 == "detail" { details[$2] = details[$2] "\n" $3 }
$1 == "sources" { sources = $2 }
$1 == "status" { statuses = statuses " " $2 }

END {
    if (program == "")
        exit 1
    print ".\\\" Made from what " program " --help prints."
    print ".TH " toupper(program) " 1 " day " \"Tombola " version "\" Tombola"
    section("NAME")
    print program " \\- " escaped(summary)
    section("SYNOPSIS")
    for (i = 1; i <= count; i++) {
        print "\\fB" escaped(program) " " escaped(commands[i]) "\\fR [\\fIOPTION\\fR]..." \
            (positional[commands[i]] == "" ? "" : " \\fI" escaped(positional[commands[i]]) "\\fR")
        print ".br"
    }
    print "\\fB" escaped(program) "\\fR [\\fICOMMAND\\fR] \\fB\\-\\-help\\fR"
    print ".br"
    print "\\fB" escaped(program " --version") "\\fR"
    section("COMMANDS")
    for (i = 1; i <= count; i++) {
        of = commands[i]
        print ".SS " escaped(of)
        print escaped(toupper(substr(summaries[of], 1, 1)) substr(summaries[of], 2)) "."
        detail_text(details[of])
        for (k = 1; k <= number[of]; k++)
            option_text(names[of, k], arguments[of, k], texts[of, k])
    }
    section("\"OPTIONS OF EVERY COMMAND\"")
    for (k = 1; k <= number["*"]; k++)
        option_text(names["*", k], arguments["*", k], texts["*", k])
    section("ENVIRONMENT")
    print escaped(sources)
    section("\"EXIT STATUS\"")
    print escaped(substr(statuses, 2)) "."
    section("\"SEE ALSO\"")
    split("tombola tombola-loader tombola-sampler tombola-trainer", others, " ")
    for (i = 1; i <= 4; i++)
        if (others[i] != program)
            list = list (list == "" ? "" : ",\n") ".BR " escaped(others[i]) " (1)"
    gsub(/\(1\),/, "(1),", list)
    print list
}
