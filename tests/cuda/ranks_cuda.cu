/* SPDX-License-Identifier: MIT */
/*
 * What the emulated NCCL must do, and what it must not let pass: `ranks NAME` runs one case, two
 * ranks as two processes. Exit status 0: it went as NCCL's would; 3: it did not. tests/service's
 * test_emulated_gpu.py says which must end otherwise, and with what message.
 */
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT 1000
#define BYTES (COUNT * sizeof(float))

enum { SUCCESS = 0, INVALID_ARGUMENT = 4, INVALID_USAGE = 5, IN_PROGRESS = 7, F32 = 7, SUM = 0 };

struct id {
    char bytes[128];
};
struct config {
    size_t size;
    unsigned magic, version;
    int blocking;
};
struct ncclComm;

extern "C" {
int ncclGetUniqueId(struct id *id);
int ncclCommInitRankConfig(struct ncclComm **comm, int ranks, struct id id, int rank,
                           const struct config *config);
int ncclCommGetAsyncError(struct ncclComm *comm, int *status);
int ncclCommAbort(struct ncclComm *comm);
int ncclAllReduce(const void *from, void *to, size_t count, int type, int operation,
                  struct ncclComm *comm, cudaStream_t stream);
int ncclBroadcast(const void *from, void *to, size_t count, int type, int root,
                  struct ncclComm *comm, cudaStream_t stream);
}

static void must(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "not so: %s\n", what);
        exit(3);
    }
}
#define MUST(condition) must(condition, #condition)

static struct id id;
static struct ncclComm *comm;
static cudaStream_t stream;
static float *memory, *host;

/* ---- one rank ----------------------------------------------------------- */

static int status_of_comm()
{
    int status = SUCCESS;
    MUST(ncclCommGetAsyncError(comm, &status) == SUCCESS);
    return status;
}

static int await_comm()
{
    int status;
    while ((status = status_of_comm()) == IN_PROGRESS)
        usleep(1000);
    return status;
}

static void begin(int rank, int gpu)
{
    const struct config config = {sizeof(config), 0xcafebeef, 22809, 0};
    MUST(cudaSetDevice(gpu) == cudaSuccess);
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    MUST(cudaMalloc((void **)&memory, BYTES) == cudaSuccess);
    MUST(cudaHostAlloc((void **)&host, BYTES, cudaHostAllocPortable) == cudaSuccess);
    for (int i = 0; i < COUNT; i++)
        host[i] = (float)(i + rank);
    MUST(cudaMemcpyAsync(memory, host, BYTES, cudaMemcpyHostToDevice, stream) == cudaSuccess);
    MUST(ncclCommInitRankConfig(&comm, 2, id, rank, &config) == IN_PROGRESS);
}

static void end()
{
    MUST(cudaStreamSynchronize(stream) == cudaSuccess);
    MUST(cudaFree(memory) == cudaSuccess);
    MUST(cudaFreeHost(host) == cudaSuccess);
    MUST(cudaStreamDestroy(stream) == cudaSuccess);
}

static int add_up(size_t count)
{
    return ncclAllReduce(memory, memory, count, F32, SUM, comm, stream);
}

static void fetch()
{
    MUST(cudaMemcpyAsync(host, memory, BYTES, cudaMemcpyDeviceToHost, stream) == cudaSuccess);
    MUST(cudaStreamSynchronize(stream) == cudaSuccess);
}

static void *abort_soon(void *)
{
    usleep(200000);
    MUST(ncclCommAbort(comm) == SUCCESS);
    return nullptr;
}

/* ---- cases, of both ranks ------------------------------------------------ */

static void sums_and_sends(int rank)
{
    begin(rank, rank);
    MUST(await_comm() == SUCCESS);
    for (int i = 0; i < 5; i++) {
        MUST(add_up(COUNT) == IN_PROGRESS);
        MUST(await_comm() == SUCCESS);
    }
    fetch();
    for (int i = 0; i < COUNT; i++)
        MUST(host[i] == (float)(16 * (2 * i + 1)));
    for (int i = 0; i < COUNT; i++)
        host[i] = (float)rank;
    MUST(cudaMemcpyAsync(memory, host, BYTES, cudaMemcpyHostToDevice, stream) == cudaSuccess);
    MUST(ncclBroadcast(memory, memory, COUNT, F32, 1, comm, stream) == IN_PROGRESS);
    fetch();
    MUST(host[0] == 1 && host[COUNT - 1] == 1);
    end();
}

static void one_gpu_for_two(int rank)
{
    begin(rank, 0);
    MUST(await_comm() == INVALID_USAGE);
    end();
}

static void not_ready(int rank)
{
    begin(rank, rank);
    MUST(add_up(COUNT) == INVALID_ARGUMENT);
    MUST(await_comm() == SUCCESS);
    MUST(add_up(COUNT) == IN_PROGRESS);
    MUST(add_up(COUNT) == INVALID_ARGUMENT);
    end();
}

/* Rank 1 dies; what the other one waits for ends when it aborts, and is garbage. */
static void a_dead_rank_hangs_the_stream(int rank)
{
    pthread_t thread;
    begin(rank, rank);
    MUST(await_comm() == SUCCESS);
    if (rank == 1)
        _exit(0);
    MUST(add_up(COUNT) == IN_PROGRESS);
    MUST(pthread_create(&thread, nullptr, abort_soon, nullptr) == 0);
    fetch();
    MUST(pthread_join(thread, nullptr) == 0);
    MUST(host[0] != 0 && host[0] != 1);
    end();
}

static void use_after_abort(int rank)
{
    begin(rank, rank);
    MUST(await_comm() == SUCCESS);
    MUST(ncclCommAbort(comm) == SUCCESS);
    if (rank == 0)
        add_up(COUNT);
    end();
}

static void other_sums(int rank)
{
    begin(rank, rank);
    MUST(await_comm() == SUCCESS);
    MUST(add_up(rank == 0 ? COUNT : COUNT - 1) == IN_PROGRESS);
    end();
}

/* -------------------------------------------------------------------------- */

#define CASE(name)  \
    {               \
#name, name \
    }

static const struct {
    const char *name;
    void (*run)(int rank);
} cases[] = {
    CASE(sums_and_sends),  CASE(one_gpu_for_two),
    CASE(not_ready),       CASE(a_dead_rank_hangs_the_stream),
    CASE(use_after_abort), CASE(other_sums),
};

int main(int count, char **arguments)
{
    for (const auto &one : cases) {
        if (count != 2 || strcmp(arguments[1], one.name) != 0)
            continue;
        MUST(ncclGetUniqueId(&id) == SUCCESS);
        pid_t other = fork();
        MUST(other >= 0);
        one.run(other == 0);
        int status = 0;
        MUST(other == 0 || waitpid(other, &status, 0) == other);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    }
    return 2;
}
