/* SPDX-License-Identifier: MIT */
#include "common/huge_memory.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_BYTES ((size_t)2 << 20)

static size_t mapped_bytes(size_t bytes)
{
    return bytes == 0 ? 1 : bytes;
}

/* Huge pages begin at multiples of their size: a mapping that may hold some is aligned to one. */
void *huge_memory_new(size_t bytes, const char *what)
{
    size_t wanted = mapped_bytes(bytes);
    size_t room = wanted < HUGE_BYTES ? wanted : wanted + HUGE_BYTES;
    if (room < wanted) {
        error_set_memory(bytes, what);
        return NULL;
    }
    uint8_t *memory = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        error_set_memory(bytes, what);
        return NULL;
    }
    if (room == wanted)
        return memory;
    size_t before = (HUGE_BYTES - (uintptr_t)memory % HUGE_BYTES) % HUGE_BYTES;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t behind = (before + wanted + page - 1) / page * page;
    if (before > 0)
        munmap(memory, before);
    if (behind < room)
        munmap(memory + behind, room - behind);
    (void)madvise(memory + before, wanted, MADV_HUGEPAGE);
    return memory + before;
}

void huge_memory_free(void *memory, size_t bytes)
{
    if (memory)
        munmap(memory, mapped_bytes(bytes));
}
