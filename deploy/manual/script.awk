# SPDX-License-Identifier: MIT
# What a script prints for --help as a man page; behind roff.awk, with its name and its first comment as `summary`.

NR == 1 {
    sub(/^usage: /, "")
    print ".\\\" Made from what " name " --help prints."
    print ".TH " toupper(name) " 1 " day " Tombola Tombola"
    print ".SH NAME\n" name " \\- " escaped(summary)
    print ".SH SYNOPSIS\n" escaped($0)
    print ".SH DESCRIPTION"
    next
}

/^  --/ {
    write_lines()
    option = substr($0, 3)
    argument = text = option
    sub(/   *.*/, "", argument)
    sub(/^.*[^ ]   */, "", text)
    sub(/ .*/, "", option)
    argument = substr(argument, length(option) + 2)
    print ".TP\n\\fB" escaped(option) "\\fR" (argument == "" ? "" : " \\fI" escaped(argument) "\\fR")
    print escaped(text)
    next
}

{ lines = lines "\n" $0 }

function write_lines() {
    if (lines ~ /[^\n]/)
        detail_text(lines, !written++)
    lines = ""
}

END {
    write_lines()
    if (!written)
        exit 1
    print ".SH \"SEE ALSO\"\n.BR tombola\\-loader (1),\n.BR tombola\\-sampler (1),\n.BR tombola\\-trainer (1)"
}
