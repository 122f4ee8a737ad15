/* SPDX-License-Identifier: MIT */
#include "common/stop.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/clock.h"

#define POLL_LIMIT_MS 1000000
#define FLAG_POLL_MS 50 /* a flag wakes nobody */
#define STACK_BYTES (64 << 10)

static _Atomic int first_signal;
static _Atomic int interrupts; /* how many SIGINT came */
static _Atomic int descriptor = -1;
static _Thread_local const _Atomic bool *followed; /* NULL: none */
static _Thread_local bool spared;

static void wake(int signal_number)
{
    int none = 0;
    atomic_compare_exchange_strong(&first_signal, &none, signal_number);
    int event = atomic_load(&descriptor);
    uint64_t one = 1;
    if (event >= 0 && write(event, &one, sizeof(one)) < 0)
        return; /* the counter is full: it is readable anyway */
}

static void on_signal(int signal_number)
{
    int saved = errno;
    if (signal_number == SIGINT && atomic_fetch_add(&interrupts, 1) > 0)
        _exit(128 + SIGINT);
    wake(signal_number);
    errno = saved;
}

/* GCC 12's ThreadSanitizer makes what it keeps of a thread's signals in the thread's first blocking
 * call, and loses a signal that comes while it does: of the main thread, this call is the first
 * one, before there is a handler. */
static void make_signals_safe(int event)
{
#ifdef __SANITIZE_THREAD__
    struct pollfd none = {.fd = event};
    poll(&none, 1, 0);
#else
    (void)event;
#endif
}

static void mask_signals(int how)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(how, &set, NULL);
}

void stop_take_signals(void)
{
    make_signals_safe(atomic_load(&descriptor));
    mask_signals(SIG_UNBLOCK);
}

void stop_leave_signals(void)
{
    mask_signals(SIG_BLOCK);
}

/* A signal's frame overwrites what lies more than 128 bytes below the stack pointer, where code
 * that oneDNN generates still keeps something: the heap was damaged. */
static enum error use_own_stack(void)
{
    static char bytes[STACK_BYTES];
    stack_t stack = {.ss_sp = bytes, .ss_size = sizeof(bytes)}, before;
    if (sigaltstack(NULL, &before) ||
        ((before.ss_flags & SS_DISABLE) && sigaltstack(&stack, NULL))) /* a sanitizer has one */
        return error_set_errno(ERROR_IO, errno, "cannot give signal handlers a stack");
    return OK;
}

enum error stop_install(void)
{
    enum error error = use_own_stack();
    if (error)
        return error;
    if (atomic_load(&descriptor) < 0) {
        int event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (event < 0)
            return error_set_errno(ERROR_IO, errno, "cannot make an eventfd for signals");
        make_signals_safe(event);
        atomic_store(&descriptor, event);
    }
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_ONSTACK};
    sigemptyset(&action.sa_mask);
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigemptyset(&ignore.sa_mask);
    if (sigaction(SIGINT, &action, NULL) || sigaction(SIGTERM, &action, NULL) ||
        sigaction(SIGPIPE, &ignore, NULL))
        return error_set_errno(ERROR_IO, errno, "cannot install the signal handlers");
    return OK;
}

bool stop_requested(void)
{
    return (!spared && atomic_load(&first_signal) != 0) || (followed && atomic_load(followed));
}

void stop_spare_thread(void)
{
    spared = true;
}

void stop_follow(const _Atomic bool *flag)
{
    followed = flag;
}

int stop_signal(void)
{
    return atomic_load(&first_signal);
}

const char *stop_signal_name(void)
{
    return stop_signal() == SIGINT ? "SIGINT" : "SIGTERM";
}

int stop_descriptor(void)
{
    return spared ? -1 : atomic_load(&descriptor);
}

bool stop_wait(long long deadline_ns)
{
    struct pollfd event = {.fd = stop_descriptor(), .events = POLLIN};
    const int64_t limit_ms = followed ? FLAG_POLL_MS : POLL_LIMIT_MS;
    while (!stop_requested()) {
        int64_t left_ms = clock_left_ms(deadline_ns);
        if (left_ms == 0)
            return false;
        poll(&event, 1, (int)(left_ms < limit_ms ? left_ms : limit_ms));
    }
    return true;
}
