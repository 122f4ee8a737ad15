/* SPDX-License-Identifier: MIT */
/*
 * Handlers of SIGBUS, the signal for a mapped page that the system cannot read or write. Each
 * object with a map installs its own, and passes on what is not of its map to the one of before.
 */
#ifndef COMMON_BUS_ERROR_H
#define COMMON_BUS_ERROR_H

#include <signal.h>

/* *ret_before is the handler of before, for bus_error_pass(). A failure is logged for debugging. */
void bus_error_install(void (*handler)(int number, siginfo_t *facts, void *context),
                       struct sigaction *ret_before);

/* The address that could not be accessed; NULL: kill(2) sent the signal. Async-signal-safe, as is
 * the next one. */
const void *bus_error_address(const siginfo_t *facts);
/* Hands the signal to the handler of before. With none, returning repeats the access, which then
 * ends the process. */
void bus_error_pass(const struct sigaction *before, int number, siginfo_t *facts, void *context);

#endif
