# SPDX-License-Identifier: MIT
# Text in the macros of man(7): for man.awk and script.awk.

function escaped(text) {
    gsub(/\\/, "\\e", text)
    gsub(/-/, "\\-", text)
    gsub(/'/, "\\(aq", text)
    gsub(/`/, "\\(ga", text)
    gsub(/\^/, "\\(ha", text)
    gsub(/~/, "\\(ti", text)
    return text ~ /^[.]/ ? "\\&" text : text
}

# Indented lines stay as they are; the others are filled. Filled ones right behind a heading: `headed`.
function detail_text(lines, headed,    count, i, list, literal, open) {
    count = split(lines, list, "\n")
    for (i = 2; i <= count; i++) {
        literal = list[i] ~ /^ /
        if (open != "" && (list[i] == "" || literal != (open == "literal"))) {
            if (open == "literal")
                print ".fi\n.RE"
            open = ""
        }
        if (list[i] == "")
            continue
        if (open == "" && !headed)
            print ".PP"
        if (open == "" && literal)
            print ".RS 2\n.nf"
        headed = 0
        open = literal ? "literal" : "filled"
        if (literal)
            sub(/^  /, "", list[i])
        print escaped(list[i])
    }
    if (open == "literal")
        print ".fi\n.RE"
}
