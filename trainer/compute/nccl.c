/* SPDX-License-Identifier: MIT */
#include "trainer/compute/nccl.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/array.h"
#include "common/clock.h"
#include "trainer/compute/blas_library.h"

/* NCCL's own types and constants, unchanged since its version 2.14, the first with nonblocking
 * mode. */
enum { SUCCESS = 0, INVALID_USAGE = 5, REMOTE_ERROR = 6, IN_PROGRESS = 7 };
enum { TYPE_F32 = 7, SUM = 0, CONFIG_VERSION = 21400, CONFIG_MAGIC = (int)0xcafebeef };
enum { POLL_US = 50 };

typedef struct ncclComm *comm_type;
typedef void *stream_type;

/* Passed by value, as ncclUniqueId. */
struct id {
    char bytes[NCCL_ID_BYTES];
};

/* ncclConfig_t of that version: a newer library reads only `size` bytes, and uses its defaults for
 * the rest. */
struct config {
    size_t size;
    unsigned magic, version;
    int blocking;
};

typedef int get_version_function(int *version);
typedef int get_id_function(struct id *id);
typedef int init_function(comm_type *comm, int ranks, struct id id, int rank,
                          struct config *config);
typedef int async_error_function(comm_type comm, int *status);
typedef int comm_function(comm_type comm);
typedef int sum_function(const void *from, void *to, size_t count, int type, int operation,
                         comm_type comm, stream_type stream);
typedef int broadcast_function(const void *from, void *to, size_t count, int type, int root,
                               comm_type comm, stream_type stream);
typedef const char *status_function(int status);
typedef const char *last_error_function(comm_type comm);

struct nccl {
    char description[40];
    get_version_function *get_version;
    get_id_function *get_id;
    init_function *init;
    async_error_function *async_error;
    comm_function *abort, *finalize, *destroy;
    sum_function *sum;
    broadcast_function *broadcast;
    status_function *status_text;
    last_error_function *last_error;

    pthread_mutex_t lock; /* guards `comm`, around each call with it */
    comm_type comm;       /* NULL: none, or aborted */
};

/* ---- the library -------------------------------------------------------- */

static enum error load(struct nccl *nccl)
{
    static const char *const files[] = {"libnccl.so.2", "libnccl.so",
                                        "/usr/local/cuda/lib64/libnccl.so.2", NULL};
    const struct {
        const char *symbol;
        void *target;
    } functions[] = {
        {"ncclGetVersion", &nccl->get_version},  {"ncclGetUniqueId", &nccl->get_id},
        {"ncclCommInitRankConfig", &nccl->init}, {"ncclCommGetAsyncError", &nccl->async_error},
        {"ncclCommAbort", &nccl->abort},         {"ncclCommFinalize", &nccl->finalize},
        {"ncclCommDestroy", &nccl->destroy},     {"ncclAllReduce", &nccl->sum},
        {"ncclBroadcast", &nccl->broadcast},     {"ncclGetErrorString", &nccl->status_text},
        {"ncclGetLastError", &nccl->last_error},
    };
    void *library;
    enum error error = blas_load_file(files, NULL, 0, &library);
    for (size_t i = 0; i < sizeof(functions) / sizeof(*functions) && !error; i++)
        error = blas_find(library, "NCCL", functions[i].symbol, (void **)functions[i].target);
    return error;
}

static enum error of_status(const struct nccl *nccl, int status, const char *what)
{
    const char *more = "";
    if (status == SUCCESS)
        return OK;
    if (status != IN_PROGRESS)
        more = nccl->last_error(NULL);
    enum error error = status == IN_PROGRESS     ? ERROR_TIMEOUT
                       : status == INVALID_USAGE ? ERROR_CONFLICT
                       : status == REMOTE_ERROR  ? ERROR_NETWORK
                                                 : ERROR_UNAVAILABLE;
    return error_set(error, "NCCL: %s: %s%s%.400s", what, nccl->status_text(status),
                     more && more[0] ? ": " : "", more ? more : "");
}

static enum error aborted(void)
{
    return error_set(ERROR_NETWORK, "NCCL: the communicator was aborted");
}

enum error nccl_open(struct nccl **ret_nccl)
{
    int version = 0;
    struct nccl *nccl = array_new(1, sizeof(*nccl), "NCCL");
    if (!nccl)
        return ERROR_MEMORY;
    pthread_mutex_init(&nccl->lock, NULL);
    enum error error = load(nccl);
    if (!error)
        error = of_status(nccl, nccl->get_version(&version), "ncclGetVersion");
    if (!error && version < CONFIG_VERSION)
        error = error_set(ERROR_UNAVAILABLE, "version %d.%d.%d blocks; at least 2.14 is needed",
                          version / 10000, version / 100 % 100, version % 100);
    if (error) {
        nccl_close(nccl);
        return error_prefix(error, "NCCL (libnccl.so.2): ");
    }
    snprintf(nccl->description, sizeof(nccl->description), "NCCL %d.%d.%d", version / 10000,
             version / 100 % 100, version % 100);
    *ret_nccl = nccl;
    return OK;
}

void nccl_close(struct nccl *nccl)
{
    if (!nccl)
        return;
    nccl_abort(nccl);
    pthread_mutex_destroy(&nccl->lock);
    free(nccl);
}

const char *nccl_describe(const struct nccl *nccl)
{
    return nccl->description;
}

/* ---- the communicator --------------------------------------------------- */

enum error nccl_make_id(struct nccl *nccl, char ret_id[NCCL_ID_BYTES])
{
    struct id id;
    enum error error = of_status(nccl, nccl->get_id(&id), "ncclGetUniqueId");
    if (!error)
        memcpy(ret_id, id.bytes, sizeof(id.bytes));
    return error;
}

enum error nccl_begin(struct nccl *nccl, const char id[NCCL_ID_BYTES], size_t ranks, size_t rank)
{
    struct config config = {.size = sizeof(config),
                            .magic = (unsigned)CONFIG_MAGIC,
                            .version = CONFIG_VERSION,
                            .blocking = 0};
    struct id given;
    memcpy(given.bytes, id, sizeof(given.bytes));
    pthread_mutex_lock(&nccl->lock);
    int status = nccl->init(&nccl->comm, (int)ranks, given, (int)rank, &config);
    pthread_mutex_unlock(&nccl->lock);
    return status == IN_PROGRESS ? OK : of_status(nccl, status, "ncclCommInitRankConfig");
}

/* The lock is held. */
static enum error poll_locked(struct nccl *nccl)
{
    int status = SUCCESS;
    if (!nccl->comm)
        return aborted();
    enum error error =
        of_status(nccl, nccl->async_error(nccl->comm, &status), "ncclCommGetAsyncError");
    return error ? error : of_status(nccl, status, "its communicator");
}

enum error nccl_poll(struct nccl *nccl)
{
    pthread_mutex_lock(&nccl->lock);
    enum error error = poll_locked(nccl);
    pthread_mutex_unlock(&nccl->lock);
    return error;
}

/* A nonblocking communicator may accept work a moment after the call. */
static enum error await_taken(struct nccl *nccl, enum error error)
{
    const struct timespec pause = {.tv_nsec = POLL_US * 1000L};
    while (error == ERROR_TIMEOUT) {
        error = nccl_poll(nccl);
        if (error == ERROR_TIMEOUT)
            nanosleep(&pause, NULL);
    }
    return error;
}

enum error nccl_sum(struct nccl *nccl, float *values, size_t count, void *stream)
{
    pthread_mutex_lock(&nccl->lock);
    enum error error =
        !nccl->comm
            ? aborted()
            : of_status(nccl, nccl->sum(values, values, count, TYPE_F32, SUM, nccl->comm, stream),
                        "ncclAllReduce");
    pthread_mutex_unlock(&nccl->lock);
    return await_taken(nccl, error);
}

enum error nccl_broadcast(struct nccl *nccl, float *values, size_t count, size_t root, void *stream)
{
    pthread_mutex_lock(&nccl->lock);
    enum error error = !nccl->comm ? aborted()
                                   : of_status(nccl,
                                               nccl->broadcast(values, values, count, TYPE_F32,
                                                               (int)root, nccl->comm, stream),
                                               "ncclBroadcast");
    pthread_mutex_unlock(&nccl->lock);
    return await_taken(nccl, error);
}

/* ---- ends --------------------------------------------------------------- */

void nccl_abort(struct nccl *nccl)
{
    pthread_mutex_lock(&nccl->lock);
    if (nccl->comm)
        nccl->abort(nccl->comm);
    nccl->comm = NULL;
    pthread_mutex_unlock(&nccl->lock);
}

void nccl_end(struct nccl *nccl, int64_t deadline_ns)
{
    const struct timespec pause = {.tv_nsec = POLL_US * 1000L};
    pthread_mutex_lock(&nccl->lock);
    enum error error =
        nccl->comm ? of_status(nccl, nccl->finalize(nccl->comm), "ncclCommFinalize") : OK;
    pthread_mutex_unlock(&nccl->lock);
    while (error == ERROR_TIMEOUT && clock_now_ns() < deadline_ns) {
        error = nccl_poll(nccl);
        if (error == ERROR_TIMEOUT)
            nanosleep(&pause, NULL);
    }
    pthread_mutex_lock(&nccl->lock);
    if (!error && nccl->comm) {
        nccl->destroy(nccl->comm);
        nccl->comm = NULL;
    }
    pthread_mutex_unlock(&nccl->lock);
    nccl_abort(nccl);
}
