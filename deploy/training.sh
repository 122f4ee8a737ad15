# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154
# A training on this machine, step by step in a folder: what quickstart and `tombola run` share. Sourced after step.sh.
#
#   bad_usage TEXT                   says so, and exits with 2
#   whole_number NAME VALUE MINIMUM  or it is bad usage
#   uri_text TEXT                    TEXT as a part of a store URI
#   claim_folder FOLDER STATUS       makes and locks it; STATUS for `fail` where another one is at work in it
#   catch_signals                    from now on a signal ends what runs, calls clean_up and exits with 128 + N
#   run_steps COMMAND...             runs the steps in a process of their own, to their end, and exits as they do
#   start LOG COMMAND...             in the background of the steps
#   run TEXT LOG COMMAND...          start, wait for it, fail if it fails
#   start_sampler OPTION...          serves $samples; sampler_pid, and when it is ready `url`
#   any_runs PID...                  has one of these children not ended?
#   all_failed PID...                have all of them ended, and none with 0? Then step_status is that of the last
#   exit_status STATUS               in words, with the signal
#   step_is_reached, find_model      what the checkpoint in $logdir says; the file of the model, into `model`
#   evaluate_model TEXT OPTION...    the step that tests the model; TEXT says so where it fails
#
# The script has the variables work, samples, logdir and steps, the programs sampler and trainer, and two functions:
#
#   fail STATUS TEXT [LOG]           says why and exits; STATUS is that of the program that failed, or 1
#   clean_up                         removes what is incomplete, after the last process has ended
#
# Nothing that is started outlives the script, however it ends. So that this holds at any instant, signals are caught in
# one place that does nothing but wait: the steps run in a second process of the script, without traps, and its session
# is ended as a whole. (In bash 5.2 a trap that fires while a command substitution is expanded is lost to a syntax error.)

# Bash prints a line of its own ("Killed") for a child that one of these has ended, unless it has a trap for it.
# shellcheck disable=SC2173
trap : ABRT BUS FPE ILL KILL SEGV

# What the script says itself to its own programs. The shell of a cluster, or a pod, has it for others: a trainer would
# wait for those, and a test would be on their rows.
unset TF_CONFIG TOMBOLA_{SAMPLER,STORE,FRAME,LISTEN,STATE,SPLITS,SPLIT,STREAM,LOGDIR,CHECKPOINT,BEST,TEST_STORE,FORMAT} \
    TOMBOLA_{PS_HOSTS,WORKER_HOSTS,JOB_NAME,TASK_INDEX,STATUS_LISTEN,TOKEN_FILE,TLS_CERT,TLS_KEY,LOG_FORMAT} \
    TOMBOLA_{CONFIG,EPOCHS,MAX_SIZE,ACCEPT_LOSS,ALLOW_ANONYMOUS,URL,LIVE,TIMEOUT,INIT_FROM,TEST_EVERY,EARLY_STOPPING}
# How far it is, and that a server listens, is read in the logs.
[[ ${TOMBOLA_LOG_LEVEL:-} != @(warning|error) ]] || unset TOMBOLA_LOG_LEVEL
# Without their design the sampler refuses them.
[[ -n ${TOMBOLA_DESIGN:-} ]] || unset TOMBOLA_{SIZE,SHARES,DEVIATIONS,COLUMN,P,K,GROUPS,RATE}

bad_usage() {
    echo "${0##*/}: $1 (--help says how)" >&2
    exit 2
}

whole_number() {
    [[ $2 =~ ^[0-9]{1,12}$ && $((10#$2)) -ge $3 ]] || bad_usage "$1 wants a whole number from $3, not '$2'"
}

uri_text() {
    local text=${1//%/%25}
    text=${text//\?/%3F}
    text=${text//&/%26}
    text=${text//$'\n'/%0A}
    printf '%s' "${text//=/%3D}"
}

# ---- the process that waits ---------------------------------------------------------------------

# Whoever inherits descriptor 9 holds the lock, too.
claim_folder() {
    mkdir -p "$1" 2>/dev/null || fail 1 "cannot make the folder $1; --work DIR takes another"
    { exec 9>"$1/lock"; } 2>/dev/null || fail 1 "cannot write in the folder $1"
    flock --nonblock --conflict-exit-code 5 9 || {
        [[ $? == 5 ]] || fail 1 "cannot lock $1/lock"
        fail "$2" "another ${0##*/} is at work in $1"
    }
}

# The function that ends the process $!, where there is one. $! and not a variable: no instant lies between a child's
# start and its number being there. The steps, whose start no signal interrupts, are in `steps_pid`.
ending='' steps_pid=''

catch_signals() { on_signals on_signal; }

on_signals() {
    local signal
    for signal in 'HUP 1' 'INT 2' 'QUIT 3' 'PIPE 13' 'TERM 15'; do
        # shellcheck disable=SC2064
        trap "$1 $signal" "${signal% *}"
    done
}

# shellcheck disable=SC2317
on_signal() {
    set +eu
    trap '' HUP INT QUIT PIPE TERM TSTP
    step_clear
    echo "${0##*/}: SIG$1: stopping what was started" >&2
    ${ending:+"$ending" "${steps_pid:-$!}"}
    clean_up
    exit $((128 + $2))
}

# In a session: Ctrl-C reaches only the process that waits. A kill -9 of that one ends the steps, too.
# Signals are noted, and looked for ten times a second: bash forgets one that comes while the last one's trap still runs.
run_steps() {
    local status=0 quiet caught=() paused=''
    on_signals note_signal
    trap 'paused=1' TSTP
    step_tied setsid "$@" </dev/null &
    steps_pid=$! ending=end_steps
    exec {quiet}<> <(:)
    while step_runs "$steps_pid"; do
        [[ ${#caught[@]} == 0 ]] || on_signal "${caught[@]}"
        [[ -z $paused ]] || pause_steps
        read -r -t 0.1 -u "$quiet" _ || true
    done
    trap '' HUP INT QUIT PIPE TERM TSTP
    wait "$steps_pid" || status=$?
    [[ $status -le 128 || $status == 141 ]] || step_fail "the process of the steps ended with $(exit_status "$status")"
    end_steps "$steps_pid"
    clean_up
    exit "$status"
}

# shellcheck disable=SC2317
note_signal() { caught=("$@"); }

# Ctrl-Z. The guard lets the steps go on if this process is killed meanwhile; else it has nothing to say, since another
# Ctrl-Z may follow at once.
pause_steps() {
    local pipe guard
    paused=''
    # shellcheck disable=SC2016
    exec {pipe}> >(exec setsid sh -c 'read -r _; kill -s CONT -- "-$0" "$0" 2>/dev/null' "$steps_pid")
    guard=$!
    end_by STOP "$steps_pid"
    step_clear
    trap - TSTP
    kill -TSTP $$ # and not SIGSTOP: where no shell could let it go on, the kernel does not stop it
    trap 'paused=1' TSTP
    end_by CONT "$steps_pid"
    kill -s KILL "$guard" 2>/dev/null || true
    exec {pipe}>&-
}

# SIGTERM, time to save, SIGKILL. Who is waited for longer is named: its disk may not answer, nor let it be killed.
end_steps() {
    local left
    end_by TERM "$1"
    has_ended_within 3 "$1" && return
    name_left "waiting for %s (process %d) to end%s\n"
    end_by TERM "$1"
    has_ended_within 17 "$1" && return
    name_left "%s (process %d) did not end within 20 s and is killed; what it had not saved is lost%s\n"
    end_by KILL "$1"
    until has_ended_within 60 "$1"; do :; done
}

# At first it is no session yet, but one process.
end_by() { kill -s "$1" -- "-$2" "$2" || true; } 2>/dev/null

# Are all processes of session $2 gone? Those that are not: `left`.
has_ended_within() {
    local end_ms
    step_clock
    end_ms=$((step_now_ms + $1 * 1000))
    while find_left "$2" && [[ ${#left[@]} -gt 0 ]]; do
        [[ $step_now_ms -lt $end_ms ]] || return 1
        sleep 0.05
        step_clock
    done
}

# Into `left`: the processes of session $1, without those that have ended and that nobody has waited for.
find_left() {
    local stat line words
    left=()
    for stat in /proc/[0-9]*/stat; do
        line=''
        { IFS= read -r -d '' line <"$stat"; } 2>/dev/null || [[ -n $line ]] || continue
        read -ra words <<<"${line##*) }"
        if [[ ${words[0]} != Z && (${words[3]} == "$1" || $stat == "/proc/$1/stat") ]]; then
            left+=("${stat//[^0-9]/}")
        fi
    done
}

# Each of `left` by FORMAT: name, number, and where its log is. Its output goes to the log.
name_left() {
    local pid log name folder
    folder=$(readlink -f "$work")
    for pid in "${left[@]}"; do
        log=$(readlink "/proc/$pid/fd/1") || continue
        name=${log##*/}
        if [[ $name == *.log ]]; then
            log="; its log: ${log/#"$folder"/$work}"
        else
            name=$(cat "/proc/$pid/comm" 2>/dev/null) || continue
            log=''
        fi
        # shellcheck disable=SC2059
        printf "%s: $1" "${0##*/}" "${name%.log}" "$pid" "$log" >&2
    done
}

# ---- in the process of the steps ----------------------------------------------------------------

start() {
    local log=$1
    shift
    : >"$log"
    step_tied "$@" </dev/null >"$log" 2>&1 &
}

run() {
    local text=$1 log=$2 pid
    shift 2
    start "$log" "$@"
    pid=$!
    until step_ended "$pid"; do
        step_show "$text$(progress_of "$log")"
        sleep 0.1
    done
    step_clear
    [[ $step_status == 0 ]] || fail "$step_status" "$text failed with $(exit_status "$step_status")" "$log"
}

# How far a program has read what it reads, where that is the last it says.
progress_of() { tail -c 400 "$1" | sed -n '$s/.*Z info *[a-z]* .*\(: [0-9]* of .* left\)$/\1/p'; }

exit_status() {
    local name
    printf 'exit status %d' "$1"
    [[ $1 -le 128 ]] || ! name=$(kill -l "$1" 2>/dev/null) || printf ' (SIG%s)' "$name"
}

any_runs() {
    local pid
    for pid in "$@"; do
        step_ended "$pid" || return 0
    done
    return 1
}

all_failed() {
    local pid
    for pid in "$@"; do
        { step_ended "$pid" && [[ $step_status != 0 ]]; } || return 1
    done
}

start_sampler() {
    local log=$work/sampler.log address='' said='' deadline_ms='' pause=0.05
    step_begin sampler
    unset TOMBOLA_ROWS # of `demo`, a number; here it would be a range
    start "$log" "$sampler" serve --store "sqlite:$(uri_text "$samples")" --listen 127.0.0.1:0 --state "$work/state" "$@"
    sampler_pid=$!
    while [[ -z $address ]] || ! said=$("$sampler" healthcheck --listen "$address" 2>&1); do
        ! step_ended "$sampler_pid" || fail "$step_status" "the sampler ended with $(exit_status "$step_status") before it was ready" "$log"
        step_show "waiting for the sampler$(progress_of "$log")${said:+: ${said#*: }}; its log: $log"
        if [[ -n $address ]]; then
            [[ $step_now_ms -lt $deadline_ms ]] || fail 1 "the sampler is not ready: ${said#*: }" "$log"
        elif [[ $step_now_ms -ge $((step_start_ms + 10000)) ]] && step_disk_is_full "$log"; then # its log may have room for it
            fail 1 "the sampler cannot say where it listens" "$log"
        fi
        [[ $step_now_ms -lt $((step_start_ms + 2000)) ]] || pause=0.3 # a look takes 20 ms of a processor
        sleep "$pause"
        [[ -z $address ]] || continue
        deadline_ms=$((step_now_ms + 60000))
        address=$(sed -n 's,.*listening on http://\([0-9.:]*\).*,\1,p' "$log" | head -n 1)
    done
    url=http://$address
}

step_is_reached() {
    [[ $(sed -n 's/^model_checkpoint_path: .*model.ckpt-\([0-9]*\).*/\1/p' "$logdir/checkpoint" 2>/dev/null) -ge $steps ]]
}

find_model() {
    model=$(sed -n 's/^model_checkpoint_path: "\(.*\)"$/\1/p' "$logdir/checkpoint" 2>/dev/null) || true
    [[ $model == /* ]] || model=$logdir/$model
    [[ -f $model && -s $model ]] || fail 1 "$logdir/checkpoint names no checkpoint that is there"
}

evaluate_model() {
    step_begin evaluate
    run "$1" "$work/evaluate.log" "$trainer" evaluate "${@:2}" --logdir "$logdir"
    step_end "$(tail -n 1 "$work/evaluate.log")"
}
