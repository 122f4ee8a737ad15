# SPDX-License-Identifier: MIT
# What `generate` collects, as one record a line, fields between tabs:
#   program NAME VERSION SUMMARY
#   command NAME POSITIONAL SUMMARY
#   option COMMAND NAME ARGUMENT KIND WORDS TEXT    COMMAND is * for those of every command
#   detail COMMAND LINE
#   sources TEXT, status LINE                       once: they are alike for every command
# KIND is what the value is: flag (none), words (one of WORDS), file, folder or other.

function fail(what) {
    print "read.awk: " name " --help" (command == "" ? "" : " of " command) ": " what >"/dev/stderr"
    failed = 1
    exit 1
}

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
    return argument ~ /(FILE|URI)$/ ? "file" : "other"
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

function end_command() {
    end_option()
    if (command == "")
        return
    if (summary == "" || group != "*" || !saw_status)
        fail("no summary, options or exit status")
    if (sources != "")
        record("sources", sources, "", "")
    sources = ""
    first_is_done = 1
}

BEGIN { FS = "\n" }

/^\f/ {
    end_command()
    command = substr($0, 2)
    part = "usage"
    summary = group = ""
    saw_status = 0
    next
}

part == "" { # --version
    if (NR == 1) {
        name = version = $0
        sub(/ .*/, "", name)
        sub(/[^ ]* /, "", version)
    }
    next
}

/^Usage: / {
    positional = $0
    if (!sub(/^.*\[OPTION\]\.\.\. ?/, "", positional))
        fail("'" $0 "', where [OPTION]... was expected")
    part = "summary"
    next
}

part == "summary" && (/^Options/ || /^Commands:/) {
    if (command == "")
        record("program", name, version, summary)
    else
        record("command", command, positional, summary)
    part = "options"
}

/^Options:$/ { group = command; next }
/^Options of every command:$/ { end_option(); group = "*"; next }
/^Where values come from:$/ { end_option(); part = "sources"; next }
/^Exit status:$/ { part = "status"; saw_status = 1; next }

/^$/ {
    if (part == "status" || part == "detail") {
        if (part == "detail")
            record("detail", command, "", "")
        part = "detail"
    }
    next
}

part == "summary" { summary = summary (summary == "" ? "" : " ") $0; next }

part == "options" && command != "" {
    if (group == "*" && first_is_done)
        next
    if (/^  --/)
        begin_option($0)
    else if (/^     / && option != "") {
        sub(/^ */, "")
        text = text (text == "" ? "" : " ") $0
    } else
        fail("'" $0 "', where an option was expected")
    next
}

part == "sources" && !first_is_done { sub(/^ */, ""); sources = sources (sources == "" ? "" : " ") $0; next }
part == "status" && !first_is_done { sub(/^ */, ""); record("status", $0, "", ""); next }
part == "detail" { record("detail", command, $0, ""); next }

END {
    if (failed)
        exit 1
    end_command()
    if (command == "")
        fail("no command")
}
