/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into a program (LD_PRELOAD): after `left` more allocations, of whatever thread and
 * library, one answers NULL; and blocks are counted. test_memory.py writes and reads these numbers
 * in the file that ALLOCATOR_FILE names. With ALLOCATOR_OWN only the program's own calls count. Once
 * main() has returned none fails: gcov's, which writes then what was covered, may not.
 */
#include "preloaded.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CALLER __builtin_return_address(0)

struct numbers {
    _Atomic int64_t left;   /* allocations until one fails; negative: none will */
    _Atomic int64_t failed; /* since the start */
    _Atomic int64_t blocks; /* allocated and not freed */
};

static struct numbers none = {.left = -1};
static struct numbers *numbers = &none;
static void *(*next_malloc)(size_t);
static void *(*next_calloc)(size_t, size_t);
static void *(*next_realloc)(void *, size_t);
static int (*next_memalign)(void **, size_t, size_t);
static void (*next_free)(void *);
static uintptr_t code_begin, code_end = UINTPTR_MAX; /* whose calls count */
static atomic_bool over;
static int (*program_main)(int, char **, char **);

/* The first object is the program. */
static int note_code(struct dl_phdr_info *object, size_t bytes, void *context)
{
    (void)bytes;
    (void)context;
    for (size_t i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
            continue;
        code_begin = object->dlpi_addr + part->p_vaddr;
        code_end = code_begin + part->p_memsz;
    }
    return 1;
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("ALLOCATOR_FILE");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *shared = mmap(NULL, sizeof(*numbers), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (getenv("ALLOCATOR_OWN"))
        dl_iterate_phdr(note_code, NULL);
    if (shared != MAP_FAILED)
        numbers = shared;
}

/* An allocation may come before begin(). */
static void find_next(void)
{
    if (next_free)
        return;
    next_malloc = NEXT(malloc);
    next_calloc = NEXT(calloc);
    next_realloc = NEXT(realloc);
    next_memalign = NEXT(posix_memalign);
    next_free = NEXT(free);
}

static void end(void)
{
    atomic_store(&over, true);
}

/* What the system registered before main() ends the program later than end(). */
static int run(int argc, char **argv, char **environment)
{
    atexit(end);
    return program_main(argc, argv, environment);
}

typedef int start(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void),
                  void (*)(void), void *);
start __libc_start_main;
int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*loader_fini)(void), void *stack_end)
{
    start *next;
    *(void **)&next = dlsym(RTLD_NEXT, "__libc_start_main");
    program_main = main;
    return next(run, argc, argv, init, fini, loader_fini, stack_end);
}

static bool fails(const void *caller)
{
    find_next();
    if (atomic_load(&over))
        return false;
    if ((uintptr_t)caller < code_begin || (uintptr_t)caller >= code_end)
        return false;
    if (atomic_load(&numbers->left) < 0 || atomic_fetch_sub(&numbers->left, 1) != 0)
        return false;
    atomic_fetch_add(&numbers->failed, 1);
    errno = ENOMEM;
    return true;
}

static void *counted(void *block)
{
    if (block)
        atomic_fetch_add(&numbers->blocks, 1);
    return block;
}

void *malloc(size_t bytes)
{
    return fails(CALLER) ? NULL : counted(next_malloc(bytes));
}

void *calloc(size_t count, size_t bytes)
{
    return fails(CALLER) ? NULL : counted(next_calloc(count, bytes));
}

void *realloc(void *block, size_t bytes)
{
    if (fails(CALLER))
        return NULL;
    void *moved = next_realloc(block, bytes);
    return block ? moved : counted(moved);
}

int posix_memalign(void **ret_block, size_t alignment, size_t bytes)
{
    if (fails(CALLER))
        return ENOMEM;
    int status = next_memalign(ret_block, alignment, bytes);
    if (status == 0)
        (void)counted(*ret_block);
    return status;
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    void *block;
    if (fails(CALLER))
        return NULL;
    errno = next_memalign(&block, alignment, bytes);
    return errno ? NULL : counted(block);
}

void free(void *block)
{
    find_next();
    if (block)
        atomic_fetch_sub(&numbers->blocks, 1);
    next_free(block);
}
