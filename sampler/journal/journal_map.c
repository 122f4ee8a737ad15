/* SPDX-License-Identifier: MIT */
/*
 * Stores into the mapped journal (DURABILITY_PROCESS) that the system cannot carry out. The thread
 * that stores has the owner's mutex, and runs the handler itself: nobody else uses the map then.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "common/bus_error.h"
#include "sampler/journal/journal_private.h"

static struct sigaction before; /* of SIGBUS */
static _Thread_local struct journal *volatile storing;

static bool give_memory(struct journal *journal, const siginfo_t *facts)
{
    const struct journal_file *file = &journal->file;
    const uint8_t *address = bus_error_address(facts);
    if (address < file->map || address >= file->map + file->room)
        return false;
    int number = errno;
    void *map = mmap(file->map, file->room, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    errno = number;
    journal->map_lost = true;
    return map != MAP_FAILED;
}

/* In a signal handler: async-signal-safe calls only. */
static void on_bus_error(int number, siginfo_t *facts, void *context)
{
    struct journal *journal = storing;
    if (journal && give_memory(journal, facts))
        return; /* the store is retried */
    bus_error_pass(&before, number, facts, context);
}

static void install(void)
{
    bus_error_install(on_bus_error, &before);
}

void journal_map_install(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
}

void journal_map_begin(struct journal *journal)
{
    storing = journal;
    atomic_signal_fence(memory_order_seq_cst);
}

void journal_map_end(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    storing = NULL;
}
