/* What the pieces of the emulated GPU have of each other: streams do work, in order, each in a
 * thread of its own. */
#ifndef TESTS_CUDA_EMULATOR_H
#define TESTS_CUDA_EMULATOR_H

#include <stdbool.h>

#include "cuda_runtime_api.h"

/* The calling thread's last error, as cudaGetLastError() tells it; returns `error`. */
cudaError_t emulated_note(cudaError_t error);
/* Says what the program did wrong where CUDA would go wrong silently, and aborts. */
void emulated_abort(const char *what) __attribute__((noreturn));

/* work(closure) after all that the stream has to do; the closure is copied. */
typedef void emulated_enqueuer(cudaStream_t stream, void (*work)(void *closure),
                               const void *closure, size_t closure_bytes);
emulated_enqueuer emulated_enqueue;
/* What a stream begins with, for libraries that know the runtime by its streams alone. */
struct emulated_stream_head {
    emulated_enqueuer *enqueue;
};
/* After all that all streams have to do. */
void emulated_synchronize(void);

/* Page-locked by cudaHostAlloc(): copies of it are asynchronous. */
bool emulated_is_page_locked(const void *memory);

#endif
