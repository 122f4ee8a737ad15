# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# One line a step, with its seconds; sourced by the scripts of this folder.
#
#   step_begin NAME         the step's clock starts
#   step_wait PID TEXT      waits for a child; on a terminal the line shows TEXT and the seconds so far
#   step_show TEXT          on a terminal the line shows TEXT and the seconds so far
#   step_end TEXT           the step's last word, and its time
#   step_note TEXT          a line of its own under the step
#   step_fail TEXT [LOG]    why it failed, the end of LOG, and where LOG is; on standard error
#
# Off a terminal only finished lines are written. step_wait waits in short sleeps, not in `wait`, so
# that a signal's trap runs at once.

step_begin() {
    step_name=$1
    step_start_us=${EPOCHREALTIME/[.,]/}
}

# Seconds since step_begin, one decimal.
step_seconds() {
    local tenths=$(((${EPOCHREALTIME/[.,]/} - step_start_us) / 100000))
    printf '%d.%d' $((tenths / 10)) $((tenths % 10))
}

step_show() {
    local now=$(((${EPOCHREALTIME/[.,]/} - step_start_us) / 1000000))
    if [[ -t 1 ]]; then printf '\r\033[K  %-9s %6d   s  %s' "$step_name" "$now" "$1"; fi
}

step_wait() {
    local pid=$1 text=$2
    while kill -0 "$pid" 2>/dev/null; do
        step_show "$text"
        sleep 0.1
    done
    step_clear
    wait "$pid"
}

# Takes the unfinished line away.
step_clear() {
    if [[ -t 1 ]]; then printf '\r\033[K'; fi
}

step_end() {
    printf '  %-9s %8s s  %s\n' "$step_name" "$(step_seconds)" "$1"
}

step_note() {
    printf '%24s%s\n' '' "$1"
}

step_fail() {
    step_clear
    if [[ -n ${2:-} && -s ${2:-} ]]; then
        {
            printf '\n'
            tail -n 15 "$2" | sed 's/^/    | /'
            printf '\n'
        } >&2
    fi
    printf '%s: %s\n' "${0##*/}" "$1" >&2
    if [[ -n ${2:-} ]]; then printf '%s: the whole log: %s\n' "${0##*/}" "$2" >&2; fi
}
