/* SPDX-License-Identifier: MIT */
#include "common/bus_error.h"

#include <errno.h>
#include <string.h>

#include "common/log.h"

void bus_error_install(void (*handler)(int number, siginfo_t *facts, void *context),
                       struct sigaction *ret_before)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGBUS, &action, ret_before))
        log_debug("no handler of SIGBUS: %s", strerror(errno));
}

const void *bus_error_address(const siginfo_t *facts)
{
    return facts->si_code > 0 ? facts->si_addr : NULL;
}

void bus_error_pass(const struct sigaction *before, int number, siginfo_t *facts, void *context)
{
    if (before->sa_flags & SA_SIGINFO) {
        before->sa_sigaction(number, facts, context);
        return;
    }
    (void)sigaction(number, before, NULL); /* the access is retried, with its previous effect */
    if (facts->si_code <= 0)               /* sent by kill(2): there is no access to retry */
        (void)raise(number);
}
