# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# One line a step, with its seconds; sourced by the scripts of this folder.
#
#   step_begin NAME         the step's clock starts
#   step_runs PID           has the child not ended?
#   step_ended PID          has it? Then step_status is its exit status
#   step_wait PID TEXT      waits for a child; on a terminal the line shows TEXT and the seconds so far
#   step_show TEXT          on a terminal the line shows TEXT and the seconds so far; elsewhere a line a minute
#   step_end TEXT           the step's last word, and its time
#   step_note TEXT          a line of its own under the step
#   step_warnings LOG...    what our programs warn of there, as notes: three of them, and none of what they waited for
#   step_last_words LOG     the end of LOG; on standard error
#   step_fail TEXT [LOG]    why it failed, the end of LOG, and where LOG is; on standard error
#   step_disk_is_full PATH  for a log that lacks its last words
#   step_clock              now, into step_now_ms
#   step_tied COMMAND...    in a subshell, whose place it takes: a command that ends with this script
#   step_apart COMMAND...   a child in a session of its own; of several, one at a time
#   step_await TEXT         waits for it, as step_wait
#   step_ends COMMAND       however this script ends, what that session still runs ends before it; then COMMAND runs
#
# step_wait waits in short sleeps, not in `wait`, so that a signal's trap runs at once. The clock is that of the
# kernel since its start, not bash's SECONDS, which jumps when the machine's time is set.

step_begin() {
    step_name=$1
    step_clock
    step_start_ms=$step_now_ms
    step_line_ms=$((step_now_ms + 60000))
}

# Also where the script was killed before setpriv could ask for the signal: then somebody else is the parent by now.
step_tied() {
    # shellcheck disable=SC2016
    exec setpriv --pdeathsig TERM sh -c '[ "$PPID" = "$0" ] && exec "$@"' $$ "$@"
}

# Ctrl-C reaches this script alone.
step_child=''
step_apart() {
    setsid "$@" </dev/null &
    step_child=$!
}

step_await() {
    local status=0
    step_wait "$step_child" "$1" || status=$?
    step_child=''
    return "$status"
}

step_ends() {
    # shellcheck disable=SC2064
    trap "trap '' HUP INT TERM; step_end_child; $1" EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

# SIGTERM, and SIGKILL for what has not ended ten seconds later.
step_end_child() {
    local tenth
    [[ -n $step_child ]] || return 0
    for ((tenth = 0; tenth < 150; tenth++)); do
        kill -s $((tenth < 100 ? 15 : 9)) -- "-$step_child" "$step_child" || break # at first it is no session yet
        sleep 0.1
    done
} 2>/dev/null

step_clock() {
    read -r step_now_ms _ </proc/uptime
    step_now_ms=$((10#${step_now_ms/./} * 10))
}

# Seconds since step_begin, one decimal.
step_seconds() {
    local tenths
    step_clock
    tenths=$(((step_now_ms - step_start_ms) / 100))
    printf '%d.%d' $((tenths / 10)) $((tenths % 10))
}

# One that can take a line back: the shell of an editor says dumb.
step_on_terminal() { [[ -t 1 && ${TERM:-} != dumb ]]; }

step_show() {
    local seconds width=${COLUMNS:-80}
    step_clock
    seconds=$(((step_now_ms - step_start_ms) / 1000))
    if step_on_terminal; then
        printf '\r\033[K  %-9s %6d   s  %s' "$step_name" "$seconds" "${1:0:width > 34 ? width - 25 : 10}"
    elif [[ $step_now_ms -ge $step_line_ms ]]; then
        step_line_ms=$((step_now_ms + 60000))
        printf '  %-9s %6d   s  %s\n' "$step_name" "$seconds" "$1"
    fi
}

# Bash has taken leave of one that ended, and its number may be somebody else's by now.
step_runs() {
    local line=''
    { IFS= read -r -d '' line <"/proc/$1/stat"; } 2>/dev/null || true
    line=${line##*) }
    [[ $line == ?" $BASHPID "* ]]
}

step_ended() {
    ! step_runs "$1" || return 1
    step_status=0
    wait "$1" 2>/dev/null || step_status=$?
}

step_wait() {
    local pid=$1 text=$2
    until step_ended "$pid"; do
        step_show "$text"
        sleep 0.1
    done
    step_clear
    return "$step_status"
}

# Takes the unfinished line away.
step_clear() {
    if step_on_terminal; then printf '\r\033[K'; fi
}

step_end() {
    step_clear
    printf '  %-9s %8s s  %s\n' "$step_name" "$(step_seconds)" "$1"
}

step_note() {
    step_clear
    printf '%24s%s\n' '' "$1"
}

step_warnings() {
    local line
    sed -n '/ warning *waiting for\|; trying again/d; s/^[0-9T:.-]*Z warning *//p' "$@" | awk '!seen[$0]++ && ++count <= 3' | while IFS= read -r line; do step_note "$line"; done
}

step_last_words() {
    printf '\n'
    tail -n 15 "$1" | sed 's/^/    | /'
    printf '\n'
} >&2

step_fail() {
    step_clear
    if [[ -n ${2:-} && -s ${2:-} ]]; then step_last_words "$2"; fi
    printf '%s: %s\n' "${0##*/}" "$1" >&2
    if [[ -n ${2:-} ]]; then printf '%s: the whole log: %s\n' "${0##*/}" "$2" >&2; fi
    if [[ -n ${2:-} ]] && step_disk_is_full "$2"; then printf '%s: no space is left on its disk\n' "${0##*/}" >&2; fi
}

step_disk_is_full() { [[ $(df --output=avail "$1" 2>/dev/null | tail -n 1) =~ ^\ *0$ ]]; }
