/* SPDX-License-Identifier: MIT */
/*
 * Notifies systemd (sd_notify(3)) over the socket in NOTIFY_SOCKET, a path or an abstract name ('@'
 * in front). Does nothing without it; a failure only leaves a debug line, since the service must
 * not depend on how it was started.
 *
 * Any thread. On a busy machine systemd may first have to read others' messages: waits for that,
 * some seconds at most, since systemd kills a service whose READY=1 is lost.
 */
#ifndef COMMON_HTTP_SYSTEMD_H
#define COMMON_HTTP_SYSTEMD_H

#include <stdint.h>

/* "READY=1" and "STOPPING=1". */
void systemd_ready(void);
void systemd_stopping(void);

/* "RELOADING=1" with the time stamp that systemd 253 expects, and "READY=1", which ends it. Only
 * between the two above: at the start, READY=1 would say that the start is complete. */
void systemd_reloading(void);
void systemd_reloaded(void);

/* "WATCHDOG=1", which is soon repeated: does not block. */
void systemd_alive(void);

/* The longest interval between WATCHDOG=1 (half of WATCHDOG_USEC if WATCHDOG_PID is this process or
 * not set), or 0: no watchdog. */
int64_t systemd_watchdog_ms(void);

#endif
