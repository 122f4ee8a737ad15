/* SPDX-License-Identifier: MIT */
/*
 * Notifies systemd (sd_notify(3)) over the socket in NOTIFY_SOCKET, a path or an abstract name ('@'
 * in front). Does nothing without it; a failure only leaves a debug line, since the service must
 * not depend on how it was started.
 */
#ifndef COMMON_HTTP_SYSTEMD_H
#define COMMON_HTTP_SYSTEMD_H

#include <stdint.h>

/* `words` are lines like "READY=1\nSTATUS=ready". Any thread. On a busy machine systemd may first
 * have to read others' messages: waits for that, some seconds at most, since systemd kills a
 * service whose READY=1 is lost. */
void systemd_send(const char *words);

/* "WATCHDOG=1", which is soon repeated. Any thread; does not block. */
void systemd_alive(void);

/* "RELOADING=1" with the time stamp that systemd 253 expects; READY=1 ends it. */
void systemd_reloading(void);

/* The longest interval between WATCHDOG=1 (half of WATCHDOG_USEC if WATCHDOG_PID is this process or
 * not set), or 0: no watchdog. */
int64_t systemd_watchdog_ms(void);

#endif
