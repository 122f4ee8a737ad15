/*
 * The names of streams that are being made: opening a stream may take long, and whoever asks for
 * the same name meanwhile hears so, instead of making it twice. Safe from every thread.
 */
#ifndef SAMPLER_SERVICE_RESERVED_NAMES_H
#define SAMPLER_SERVICE_RESERVED_NAMES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

/* In the caller's storage while the name is taken. */
struct name_taken {
    struct name_taken *next;
    const char *name; /* NULL: none is taken */
    int64_t since_ns;
};

struct names_taken {
    pthread_mutex_t mutex;
    struct name_taken *first;
};

void names_taken_init(struct names_taken *set);
void names_taken_release(struct names_taken *set);

/* ERROR_CONFLICT: somebody makes a stream of that name. `name` lives until names_taken_leave(). */
enum error names_taken_enter(struct names_taken *set, struct name_taken *one,
                             const char *name) MUST_CHECK;
/* Also of one that never entered: all zeros. */
void names_taken_leave(struct names_taken *set, struct name_taken *one);

#endif
