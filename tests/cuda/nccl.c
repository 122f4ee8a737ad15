/* SPDX-License-Identifier: MIT */
/*
 * The part of NCCL that Tombola loads, between emulated GPUs of processes of one machine, which
 * share a file in $TMPDIR. A rank's work waits in its stream for all others', so that one that died
 * or is stopped leaves the others hanging until they abort; what an aborted sum leaves in its memory
 * is garbage. Sums are added in the order of the ranks.
 *
 * It refuses what NCCL refuses: one GPU for two ranks, a communicator that is not ready or that
 * blocks, another rank's place. What NCCL does not survive ends the program: use after an abort,
 * ranks that ask for different things.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "emulator.h"

enum { SUCCESS = 0, SYSTEM_ERROR = 2, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, IN_PROGRESS = 7 };
enum { VERSION = 22809, TYPE_F32 = 7, SUM = 0, OLDEST_CONFIG = 21400 };
#define CONFIG_MAGIC 0xcafebeefu
#define RANKS 16
#define SLOT_BYTES ((size_t)64 << 20) /* of what a rank says; the file has holes */
#define PAUSE_NS 50000

enum kind { SUMS, SENDS };

/* What ranks ask for, one after the other: they take turns with two slots each. */
struct posted {
    _Atomic uint64_t turn; /* the latest that the rank has posted */
    _Atomic uint64_t done; /* the latest whose values of all it has taken */
    enum kind kinds[2];
    int roots[2];
    size_t counts[2];
};

struct shared {
    _Atomic int ranks; /* of the first who came; 0: nobody */
    _Atomic int here;
    _Atomic int places[RANKS], gpus[RANKS], left[RANKS];
    struct posted posted[RANKS];
};

struct ncclComm {
    struct ncclComm *next; /* of all: none is freed, since streams may name it */
    struct shared *shared;
    char *slots; /* [RANKS][2][SLOT_BYTES] */
    char path[200];
    int ranks, rank;
    _Atomic bool aborted, taking;
    bool ready, finalized, gone;
    uint64_t turns; /* that were asked for */
    const char *problem;
};

struct unique_id {
    char bytes[128];
};

struct config {
    size_t size;
    unsigned int magic, version;
    int blocking;
};

struct turn {
    struct ncclComm *comm;
    uint64_t number;
    enum kind kind;
    int root;
    const float *from;
    float *to;
    size_t count;
};

static struct ncclComm *comms;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread const char *last_problem = "";

static void die(const char *what)
{
    fprintf(stderr, "emulated NCCL: %s\n", what);
    abort();
}

static int refuse(int status, const char *why)
{
    last_problem = why;
    return status;
}

static void rest(void)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    nanosleep(&pause, NULL);
}

/* ---- the communicator --------------------------------------------------- */

int ncclGetVersion(int *version)
{
    *version = VERSION;
    return SUCCESS;
}

/* A path, whose file the first rank makes. */
int ncclGetUniqueId(struct unique_id *id)
{
    static _Atomic unsigned ids;
    const char *folder = getenv("TMPDIR");
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    memset(id, 0, sizeof(*id));
    int length =
        snprintf(id->bytes, sizeof(id->bytes), "%s/nccl-%d-%u-%ld", folder ? folder : "/tmp",
                 (int)getpid(), atomic_fetch_add(&ids, 1), now.tv_nsec);
    return (size_t)length < sizeof(id->bytes)
               ? SUCCESS
               : refuse(SYSTEM_ERROR, "$TMPDIR is too long for an emulated id");
}

static bool map(struct ncclComm *comm)
{
    size_t before = (sizeof(struct shared) + 4095) / 4096 * 4096;
    size_t bytes = before + RANKS * 2 * SLOT_BYTES;
    int file = open(comm->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, (off_t)bytes) != 0)
        return false;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    close(file);
    if (memory == MAP_FAILED)
        return false;
    comm->shared = memory;
    comm->slots = (char *)memory + before;
    return true;
}

/* The GPU of the calling thread, as all processes of the machine number them. */
static int current_gpu(void)
{
    const char *text = getenv(EMULATED_RUNTIME);
    const struct emulated_runtime *runtime =
        text ? (const void *)(uintptr_t)strtoull(text, NULL, 16) : NULL;
    if (!runtime)
        die("the program has no emulated GPU");
    return runtime->physical_gpu();
}

int ncclCommInitRankConfig(struct ncclComm **ret_comm, int ranks, struct unique_id id, int rank,
                           const struct config *config)
{
    if (config->magic != CONFIG_MAGIC || config->version < OLDEST_CONFIG ||
        config->size < sizeof(*config))
        return refuse(INVALID_ARGUMENT, "ncclConfig_t argument not initialized");
    if (config->blocking != 0)
        return refuse(INVALID_ARGUMENT, "a communicator that blocks is not emulated");
    if (ranks < 1 || ranks > RANKS || rank < 0 || rank >= ranks)
        return refuse(INVALID_ARGUMENT, "Invalid rank requested");
    struct ncclComm *comm = calloc(1, sizeof(*comm));
    if (!comm)
        die("no memory");
    memcpy(comm->path, id.bytes, sizeof(id.bytes));
    comm->ranks = ranks;
    comm->rank = rank;
    if (!map(comm))
        return refuse(SYSTEM_ERROR, "Call to connect failed: no such id");
    int expected = 0;
    if (!atomic_compare_exchange_strong(&comm->shared->ranks, &expected, ranks) &&
        expected != ranks)
        return refuse(INVALID_USAGE, "Bootstrap Root: mismatch in rank count");
    if (atomic_exchange(&comm->shared->places[rank], 1))
        return refuse(INVALID_USAGE, "Bootstrap Root: a rank has checked in twice");
    comm->shared->gpus[rank] = current_gpu();
    atomic_fetch_add(&comm->shared->here, 1);
    pthread_mutex_lock(&lock);
    comm->next = comms;
    *ret_comm = comms = comm;
    pthread_mutex_unlock(&lock);
    return IN_PROGRESS;
}

static void look_for_twins(struct ncclComm *comm)
{
    for (int i = 0; i < comm->ranks; i++) {
        for (int j = 0; j < i; j++) {
            if (comm->shared->gpus[i] == comm->shared->gpus[j])
                comm->problem = "Duplicate GPU detected : two ranks on one CUDA device";
        }
    }
}

static void check_alive(const struct ncclComm *comm)
{
    if (!comm || comm->gone)
        die("a communicator is used after its end");
}

static bool everybody_left(const struct ncclComm *comm)
{
    for (int i = 0; i < comm->ranks; i++) {
        if (!comm->shared->left[i])
            return false;
    }
    return true;
}

int ncclCommGetAsyncError(struct ncclComm *comm, int *status)
{
    check_alive(comm);
    if (comm->finalized) {
        *status = everybody_left(comm) ? SUCCESS : IN_PROGRESS;
        return SUCCESS;
    }
    if (!comm->ready && comm->shared->here == comm->ranks) {
        comm->ready = true;
        unlink(comm->path);
        look_for_twins(comm);
    }
    *status = !comm->ready || comm->taking ? IN_PROGRESS
              : comm->problem              ? refuse(INVALID_USAGE, comm->problem)
                                           : SUCCESS;
    comm->taking = false; /* by the next look it is taken */
    return SUCCESS;
}

const char *ncclGetLastError(const struct ncclComm *comm)
{
    (void)comm;
    return last_problem;
}

const char *ncclGetErrorString(int status)
{
    switch (status) {
    case SUCCESS:
        return "no error";
    case SYSTEM_ERROR:
        return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case INVALID_ARGUMENT:
        return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case INVALID_USAGE:
        return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case IN_PROGRESS:
        return "NCCL operation in progress";
    }
    return "unknown result code";
}

int ncclCommFinalize(struct ncclComm *comm)
{
    check_alive(comm);
    comm->finalized = true;
    comm->shared->left[comm->rank] = 1;
    return IN_PROGRESS;
}

int ncclCommDestroy(struct ncclComm *comm)
{
    check_alive(comm);
    comm->gone = true;
    return SUCCESS;
}

int ncclCommAbort(struct ncclComm *comm)
{
    check_alive(comm);
    comm->gone = true;
    comm->aborted = true;
    unlink(comm->path);
    return SUCCESS;
}

/* ---- work --------------------------------------------------------------- */

static float *slot_of(const struct turn *turn, int rank)
{
    size_t number = 2 * (size_t)rank + turn->number % 2;
    return (float *)(void *)(turn->comm->slots + number * SLOT_BYTES);
}

/* Until all ranks have come so far; false: aborted meanwhile. `takes`: they have taken it. */
static bool await(const struct turn *turn, uint64_t number, bool takes)
{
    struct ncclComm *comm = turn->comm;
    for (int rank = 0; rank < comm->ranks;) {
        const struct posted *posted = &comm->shared->posted[rank];
        uint64_t so_far = takes ? posted->done : posted->turn;
        if (comm->aborted)
            return false;
        if (so_far >= number)
            rank++;
        else
            rest();
    }
    return true;
}

static void post(const struct turn *turn)
{
    struct ncclComm *comm = turn->comm;
    struct posted *own = &comm->shared->posted[comm->rank];
    unsigned side = turn->number % 2;
    own->kinds[side] = turn->kind;
    own->roots[side] = turn->root;
    own->counts[side] = turn->count;
    if (turn->kind == SUMS || turn->root == comm->rank)
        memcpy(slot_of(turn, comm->rank), turn->from, turn->count * sizeof(float));
    own->turn = turn->number;
}

static void check_same(const struct turn *turn)
{
    unsigned side = turn->number % 2;
    for (int rank = 0; rank < turn->comm->ranks; rank++) {
        const struct posted *theirs = &turn->comm->shared->posted[rank];
        if (theirs->kinds[side] != turn->kind || theirs->roots[side] != turn->root ||
            theirs->counts[side] != turn->count)
            die("ranks ask for different things");
    }
}

static void take(const struct turn *turn)
{
    int first = turn->kind == SUMS ? 0 : turn->root;
    memcpy(turn->to, slot_of(turn, first), turn->count * sizeof(float));
    for (int rank = 1; turn->kind == SUMS && rank < turn->comm->ranks; rank++) {
        const float *theirs = slot_of(turn, rank);
        for (size_t i = 0; i < turn->count; i++)
            turn->to[i] += theirs[i];
    }
}

static void run(void *closure)
{
    const struct turn *turn = closure;
    struct ncclComm *comm = turn->comm;
    bool whole = turn->number < 2 || await(turn, turn->number - 2, true);
    if (whole && !comm->aborted) {
        post(turn);
        whole = await(turn, turn->number, false);
    }
    if (!whole || comm->aborted) {
        if (turn->kind == SUMS || turn->root != comm->rank)
            memset(turn->to, EMULATED_GARBAGE, turn->count / 2 * sizeof(float));
        return;
    }
    check_same(turn);
    take(turn);
    comm->shared->posted[comm->rank].done = turn->number;
}

static int enqueue(struct turn *turn, int type, cudaStream_t stream)
{
    struct ncclComm *comm = turn->comm;
    const struct emulated_stream_head *head = (const void *)stream;
    const void *const pointers[] = {turn->from, turn->to};
    check_alive(comm);
    if (!comm->ready || comm->problem || comm->taking || comm->finalized)
        return refuse(INVALID_ARGUMENT, "Attempt to use communicator before the previous operation "
                                        "returned ncclSuccess");
    if (type != TYPE_F32 || turn->count * sizeof(float) > SLOT_BYTES || turn->root >= comm->ranks)
        return refuse(INVALID_ARGUMENT, "not emulated");
    if (!stream || !head->is_current(stream) || head->is_capturing(stream))
        return refuse(INVALID_ARGUMENT, "the stream is another GPU's, or captures");
    turn->number = ++comm->turns;
    if (head->submit(stream, run, turn, sizeof(*turn), pointers, 2) != cudaSuccess)
        return refuse(SYSTEM_ERROR, "a launch failed");
    comm->taking = true;
    return IN_PROGRESS;
}

int ncclAllReduce(const void *from, void *to, size_t count, int type, int operation,
                  struct ncclComm *comm, cudaStream_t stream)
{
    struct turn turn = {.comm = comm, .kind = SUMS, .from = from, .to = to, .count = count};
    return operation == SUM ? enqueue(&turn, type, stream)
                            : refuse(INVALID_ARGUMENT, "not emulated");
}

int ncclBroadcast(const void *from, void *to, size_t count, int type, int root,
                  struct ncclComm *comm, cudaStream_t stream)
{
    struct turn turn = {
        .comm = comm, .kind = SENDS, .root = root, .from = from, .to = to, .count = count};
    return enqueue(&turn, type, stream);
}
