# SPDX-License-Identifier: MIT
# What `generate` collects of a script, as records; behind record.awk, with the script's first comment as `summary`. Its
# help begins with "usage: NAME COMMAND ARGUMENT": the options are those of this one command.

NR == 1 {
    split($0, words, " ")
    sub(/: .*/, "", summary)
    record("program", words[2], "", summary)
    record("command", words[3], words[4], summary)
    group = words[3]
    next
}

/^  --/ { begin_option($0); next }
/^     / && option != "" { sub(/^ */, ""); text = text " " $0; next }
{ end_option() }
END { end_option() }
