/* SPDX-License-Identifier: MIT */
/*
 * NCCL, loaded with dlopen() when GPUs exchange gradients, so that the program starts without it.
 * One communicator at a time, in which this process is one rank, with the calling thread's current
 * GPU. Operations are enqueued on a stream and run asynchronously.
 *
 *   nccl_make_id     on one process; its bytes are handed to all by other means
 *   nccl_begin       on each; nccl_poll until it says OK
 *   nccl_sum, ...    the same calls in the same order on all
 *   nccl_end, or nccl_abort where another rank may be gone
 *
 * If a rank dies, stops or aborts, the others' work hangs in their streams: nccl_abort() ends it,
 * leaving garbage in its memory. The order of summation depends on the number of ranks and on how
 * they are connected; all ranks get the same bits.
 *
 * Threads: one; nccl_poll() and nccl_abort() also from another one, at any time.
 */
#ifndef TRAINER_COMPUTE_NCCL_H
#define TRAINER_COMPUTE_NCCL_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define NCCL_ID_BYTES 128

struct nccl;

/* Loads the library. ERROR_UNAVAILABLE, naming it, if it is missing or lacks a function. */
enum error nccl_open(struct nccl **ret_nccl) MUST_CHECK;
/* Aborts the communicator, if there is one. NULL is legal. */
void nccl_close(struct nccl *nccl);

/* "NCCL 2.28.9". Borrowed until nccl_close(). */
const char *nccl_describe(const struct nccl *nccl);

enum error nccl_make_id(struct nccl *nccl, char ret_id[NCCL_ID_BYTES]) MUST_CHECK;
/* Begins to connect as `rank` of `ranks`; returns at once. There must be no communicator. */
enum error nccl_begin(struct nccl *nccl, const char id[NCCL_ID_BYTES], size_t ranks,
                      size_t rank) MUST_CHECK;
/* OK: all requested operations are in progress. ERROR_TIMEOUT: not yet. ERROR_CONFLICT: two ranks
 * have the same GPU, or NCCL refuses the call for another reason. ERROR_NETWORK: a rank is lost, or
 * the communicator was aborted. Does not wait. */
enum error nccl_poll(struct nccl *nccl) MUST_CHECK;

/* In device memory, on `stream` (a cudaStream_t of the GPU): values[count] become the sum over all
 * ranks, or the values of `root`. Errors as nccl_poll(); waits for NCCL to accept the work, not for
 * its completion. */
enum error nccl_sum(struct nccl *nccl, float *values, size_t count, void *stream) MUST_CHECK;
enum error nccl_broadcast(struct nccl *nccl, float *values, size_t count, size_t root,
                          void *stream) MUST_CHECK;

/* Leaves in good order once all enqueued work on this rank is done: waits for the others to get as
 * far until the deadline (clock.h), then aborts. */
void nccl_end(struct nccl *nccl, int64_t deadline_ns);
/* Ends what hangs in the stream. Does not wait for other ranks. Does nothing without a
 * communicator. */
void nccl_abort(struct nccl *nccl);

#endif
