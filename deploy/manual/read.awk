# SPDX-License-Identifier: MIT
# What `generate` collects of a program, as records; behind record.awk.

function fail(what) {
    print "read.awk: " name " --help" (command == "" ? "" : " of " command) ": " what >"/dev/stderr"
    failed = 1
    exit 1
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
