/* SPDX-License-Identifier: MIT */
/*
 * Words to systemd (sd_notify(3)) over the socket that NOTIFY_SOCKET names, a path or an abstract
 * name ('@' in front). Nothing happens without it, and a failure only leaves a debug line: the
 * service must not depend on who started it.
 */
#ifndef COMMON_HTTP_SYSTEMD_H
#define COMMON_HTTP_SYSTEMD_H

#include <stdint.h>

/* `words` are lines like "READY=1\nSTATUS=ready". Every thread. On a busy machine systemd may have
 * to read first what others told it: waits for that, for some seconds at most, since a service
 * whose READY=1 is lost is ended. */
void systemd_send(const char *words);

/* "WATCHDOG=1", which is said again soon. Every thread; does not block. */
void systemd_alive(void);

/* "RELOADING=1" with the time stamp that systemd 253 wants beside it; READY=1 ends it. */
void systemd_reloading(void);

/* How often a watchdog wants WATCHDOG=1 at least (half of WATCHDOG_USEC when WATCHDOG_PID is this
 * process or not given), or 0: none does. */
int64_t systemd_watchdog_ms(void);

#endif
