/* SPDX-License-Identifier: MIT */
#include "common/http/systemd.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/text.h"

#define PATIENCE_SECONDS 5

static _Atomic bool is_ready; /* between READY=1 and STOPPING=1 */

/* 0: no socket to notify. */
static socklen_t address_of(struct sockaddr_un *address)
{
    const char *name = getenv("NOTIFY_SOCKET");
    size_t length = name ? strlen(name) : 0;
    if (length < 2 || length >= sizeof(address->sun_path) || (*name != '/' && *name != '@'))
        return 0;
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path, name, length);
    if (*name == '@')
        address->sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
}

static void tell(const char *words, int flags)
{
    struct sockaddr_un address;
    const struct timeval patience = {.tv_sec = PATIENCE_SECONDS};
    socklen_t length = address_of(&address);
    if (length == 0)
        return;
    int descriptor = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0 ||
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) < 0 ||
        sendto(descriptor, words, strlen(words), MSG_NOSIGNAL | flags,
               (const struct sockaddr *)&address, length) < 0)
        log_debug("NOTIFY_SOCKET: %s", strerror(errno));
    if (descriptor >= 0)
        close(descriptor);
}

void systemd_ready(void)
{
    atomic_store(&is_ready, true);
    tell("READY=1", 0);
}

void systemd_stopping(void)
{
    atomic_store(&is_ready, false);
    tell("STOPPING=1", 0);
}

void systemd_reloading(void)
{
    char words[64];
    snprintf(words, sizeof(words), "RELOADING=1\nMONOTONIC_USEC=%" PRId64, clock_now_ns() / 1000);
    if (atomic_load(&is_ready))
        tell(words, 0);
}

void systemd_reloaded(void)
{
    if (atomic_load(&is_ready))
        tell("READY=1", 0);
}

void systemd_alive(void)
{
    tell("WATCHDOG=1", MSG_DONTWAIT);
}

int64_t systemd_watchdog_ms(void)
{
    const char *interval = getenv("WATCHDOG_USEC");
    const char *process = getenv("WATCHDOG_PID");
    int64_t interval_us;
    int64_t pid;
    if (!interval || !text_parse_integer(interval, strlen(interval), 1, INT64_MAX, &interval_us))
        return 0;
    if (process && (!text_parse_integer(process, strlen(process), 1, INT32_MAX, &pid) ||
                    pid != (int64_t)getpid()))
        return 0;
    return interval_us / 2000 > 0 ? interval_us / 2000 : 1;
}
