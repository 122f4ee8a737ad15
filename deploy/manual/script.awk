# SPDX-License-Identifier: MIT
# What a script prints for --help as a man page; behind roff.awk, with its name and its first comment as `summary`.

NR == 1 {
    sub(/^usage: /, "")
    print ".\\\" Made from what " name " --help prints."
    print ".TH " toupper(name) " 1 " day " Tombola Tombola"
    print ".SH NAME\n" name " \\- " escaped(summary)
    print ".SH SYNOPSIS\n" escaped($0)
    next
}

{ lines = lines "\n" $0 }

END {
    if (lines == "")
        exit 1
    print ".SH DESCRIPTION"
    detail_text(lines, 1)
    print ".SH \"SEE ALSO\"\n.BR tombola\\-loader (1),\n.BR tombola\\-sampler (1),\n.BR tombola\\-trainer (1)"
}
