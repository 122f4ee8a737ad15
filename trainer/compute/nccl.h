/* SPDX-License-Identifier: MIT */
/*
 * NCCL, loaded with dlopen() when GPUs are to exchange gradients: one binary starts without it. One
 * communicator at a time, of which this process is one rank, with the GPU that is the calling
 * thread's choice. What it is asked for is enqueued on a stream and runs on.
 *
 *   nccl_make_id     on one process; its bytes are handed to all by other means
 *   nccl_begin       on each; nccl_poll until it says OK
 *   nccl_sum, ...    the same calls in the same order on all
 *   nccl_end, or nccl_abort where another rank may be gone
 *
 * A rank that died, or that is stopped, leaves the others' work hanging in their streams, and so
 * does one that aborts: nccl_abort() ends it, with whatever bytes in the memory that it was given.
 * Sums are added in an order that depends on the number of ranks and on how they are connected; all
 * ranks get the same bits.
 *
 * Threads: one; nccl_poll() and nccl_abort() from another one, too, at any time.
 */
#ifndef TRAINER_COMPUTE_NCCL_H
#define TRAINER_COMPUTE_NCCL_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define NCCL_ID_BYTES 128

struct nccl;

/* Loads the library. ERROR_UNAVAILABLE, naming it, when it is not there or lacks a function. */
enum error nccl_open(struct nccl **ret_nccl) MUST_CHECK;
/* Aborts the communicator, if there is one. NULL is legal. */
void nccl_close(struct nccl *nccl);

/* "NCCL 2.28.9". Borrowed until nccl_close(). */
const char *nccl_describe(const struct nccl *nccl);

enum error nccl_make_id(struct nccl *nccl, char ret_id[NCCL_ID_BYTES]) MUST_CHECK;
/* Begins to connect, as `rank` of `ranks`; returns at once. There is no communicator. */
enum error nccl_begin(struct nccl *nccl, const char id[NCCL_ID_BYTES], size_t ranks,
                      size_t rank) MUST_CHECK;
/* OK: all that was asked for is under way. ERROR_TIMEOUT: not yet. ERROR_CONFLICT: two ranks have
 * the same GPU, or call it in another way that NCCL refuses. ERROR_NETWORK: a rank is lost, or the
 * communicator was aborted. Does not wait. */
enum error nccl_poll(struct nccl *nccl) MUST_CHECK;

/* In device memory, on `stream` (a cudaStream_t of the GPU): values[count] become the sum of all
 * ranks', or those of `root`. Errors as of nccl_poll(); they wait for NCCL to take the work, not
 * for the work. */
enum error nccl_sum(struct nccl *nccl, float *values, size_t count, void *stream) MUST_CHECK;
enum error nccl_broadcast(struct nccl *nccl, float *values, size_t count, size_t root,
                          void *stream) MUST_CHECK;

/* Leaves in good order, once all that was enqueued is done on this rank: waits for the others to
 * come as far until the deadline (clock.h), and aborts then. */
void nccl_end(struct nccl *nccl, int64_t deadline_ns);
/* Ends what hangs in the stream. Waits for no other rank. Nothing happens if there is no
 * communicator. */
void nccl_abort(struct nccl *nccl);

#endif
