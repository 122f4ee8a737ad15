# SPDX-License-Identifier: MIT
# What --help says as one record a line, fields between tabs:
#   program NAME VERSION SUMMARY
#   command NAME POSITIONAL SUMMARY
#   option COMMAND NAME ARGUMENT KIND WORDS TEXT    COMMAND is * for those of every command
#   detail COMMAND LINE
#   sources TEXT, status LINE                       once: they are alike for every command
# KIND is what the value is: flag (none), words (one of WORDS), file, folder or other.
# These functions are for read.awk and read_script.awk, whose `group` is the COMMAND of the options that they read.

function record(a, b, c, d) {
    print a "\t" b "\t" c "\t" d
}

# "a, b or c" at the start of `text`, up to a mark: "a b c", without those that stand for others ("cuda:N").
function words_at_start(text,    count, i, parts, words) {
    sub(/(; |: | \(|\.$).*/, "", text)
    count = split(text, parts, /, or |, | or /)
    if (count < 2)
        return ""
    for (i = 1; i <= count; i++) {
        if (parts[i] !~ /^[A-Za-z0-9:_-]+$/)
            return ""
        if (parts[i] ~ /^[a-z0-9_-]+$/)
            words = words (words == "" ? "" : " ") parts[i]
    }
    return words
}

# A choice is its argument; other options list their words at the start of the text, or behind a colon.
function words_of(argument, text,    words) {
    if (argument ~ /\|/) {
        gsub(/\|/, " ", argument)
        return argument
    }
    if (argument != "NAME")
        return ""
    words = words_at_start(text)
    if (words == "" && match(text, /[A-Za-z`]: /))
        words = words_at_start(substr(text, RSTART + 3))
    return words
}

function kind_of(argument, words) {
    if (argument == "")
        return "flag"
    if (words != "")
        return "words"
    if (argument ~ /DIR$/)
        return "folder"
    return argument ~ /(FILE|URI|TABLE)$/ ? "file" : "other"
}

function end_option(    words) {
    if (option == "")
        return
    words = words_of(argument, text)
    record("option\t" group, option, argument, kind_of(argument, words) "\t" words "\t" text)
    option = ""
}

# "  --name ARGUMENT   text": the text may begin on the next line.
function begin_option(line,    words, head) {
    end_option()
    line = substr(line, 3)
    head = line
    if (match(line, /   */)) {
        head = substr(line, 1, RSTART - 1)
        text = substr(line, RSTART + RLENGTH)
    } else {
        text = ""
    }
    option = head
    argument = ""
    if (match(head, / /)) {
        option = substr(head, 1, RSTART - 1)
        argument = substr(head, RSTART + 1)
    }
}
