/* SPDX-License-Identifier: MIT */
/*
 * thin_worker SECONDS BATCH_US HOST:PORT...     (bench_cluster.py)
 * thin_worker SECONDS raw
 *
 * A worker without a network, a store and a sampler: it pushes gradients of small random numbers,
 * BATCH_US microseconds of sleep apart, and takes the values that come back. The servers have a
 * logdir that says what is trained. One line: batches a second, the middle and the slowest percent
 * of pushes in microseconds, and how many steps old a gradient was on average.
 *
 * raw: what plain TCP takes for as many bytes as MNIST's 784-100-10 has, there and back, with
 * Adagrad on them between, by a process that reads and writes each at once.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/array.h"
#include "common/clock.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/compute/cpu_loops.h"
#include "trainer/wire/hello.h"
#include "trainer/wire/link.h"
#include "trainer/wire/shard.h"

#define PATIENCE_MS 20000
#define SAMPLES 1000000
#define SERVERS 64
#define RAW_PARAMETERS 79510

static void fail(void)
{
    fprintf(stderr, "thin_worker: %s\n", error_message());
    exit(1);
}

static void need(enum error error)
{
    if (error)
        fail();
}

static int64_t deadline(void)
{
    return clock_deadline_ns(PATIENCE_MS);
}

/* ---- what is measured --------------------------------------------------- */

static float times_us[SAMPLES];
static size_t time_count;
static int64_t pushed, staleness;

static int by_size(const void *a, const void *b)
{
    const float *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

static void note(int64_t begin_ns)
{
    if (time_count < SAMPLES)
        times_us[time_count++] = (float)(clock_now_ns() - begin_ns) / 1000;
}

static void print(double seconds)
{
    qsort(times_us, time_count, sizeof(*times_us), by_size);
    if (time_count == 0)
        exit(1);
    printf("%.1f %.0f %.0f %.2f\n", (double)pushed / seconds, (double)times_us[time_count / 2],
           (double)times_us[time_count - 1 - time_count / 100],
           pushed ? (double)staleness / (double)pushed : 0.0);
}

/* ---- a worker ----------------------------------------------------------- */

struct remote {
    struct link link;
    struct shard shard;
};

static struct remote remotes[SERVERS];
static size_t servers;
static struct model_layout layout;
static float *gradient, *values;
static struct index_set held;
static struct wire_header state = {.batch = WIRE_NONE, .done = WIRE_NONE};

static void greet(size_t number)
{
    struct hello hello = {
        .role = "worker", .server = (int64_t)number, .servers = (int64_t)servers, .staleness = -1};
    struct buffer text = BUFFER_INIT(WIRE_TEXT_LIMIT);
    struct wire_header header = {.type = WIRE_HELLO};
    struct link *link = &remotes[number].link;
    need(link_open(link, deadline()));
    need(hello_print(&hello, &text));
    struct iovec part = {.iov_base = text.data, .iov_len = text.length};
    need(link_send(link, &header, &part, 1, deadline()));
    need(link_receive(link, WIRE_FACTS_LIMIT, &header, deadline()));
    char *facts = malloc(header.bytes + 1);
    need(link_read(link, facts, header.bytes, deadline()));
    if (header.type == WIRE_FACTS) {
        struct checkpoint *checkpoint;
        need(checkpoint_open_facts("server 0", facts, header.bytes, &checkpoint));
        const struct model_options *model = &checkpoint_get_facts(checkpoint)->model;
        need(model_layout_init(&layout, &model->shape, &model->optimizer));
        checkpoint_close(checkpoint);
    } else if (number == 0) {
        error_set(ERROR_INPUT, "the servers' logdir does not say what is trained");
        fail();
    }
    free(facts);
    buffer_release(&text);
}

static void ask(size_t number, enum wire_type type)
{
    struct remote *remote = &remotes[number];
    struct wire_header header = state;
    struct iovec parts[SHARD_PIECES_LIMIT];
    size_t count = 0;
    header.type = (uint16_t)type;
    for (; type == WIRE_PUSH && count < remote->shard.piece_count; count++)
        parts[count] = (struct iovec){gradient + remote->shard.pieces[count].offset,
                                      remote->shard.pieces[count].count * sizeof(float)};
    need(link_send(&remote->link, &header, parts, count, deadline()));
}

/* Is the training over? */
static bool take(size_t number)
{
    struct remote *remote = &remotes[number];
    struct wire_header header;
    need(link_receive(&remote->link, UINT64_MAX, &header, deadline()));
    if (header.type != WIRE_VALUES)
        return true;
    if (number == 0) {
        struct index_range range;
        for (size_t i = 0; i < header.stock; i++) {
            need(link_read(&remote->link, &range, sizeof(range), deadline()));
            need(index_set_add(&held, range));
        }
        if (state.step > 0)
            staleness += header.step - state.step - 1;
        state.step = header.step;
        state.generation = header.generation;
    }
    need(link_read(&remote->link, values, remote->shard.parameters * sizeof(float), deadline()));
    return header.over != 0;
}

static bool exchange(enum wire_type type)
{
    bool over = false;
    for (size_t i = 0; i < servers; i++)
        ask(i, type);
    for (size_t i = 0; i < servers; i++)
        over |= take(i);
    return over;
}

static void work(double seconds, useconds_t batch_us)
{
    int64_t begin_ns = clock_now_ns(), end_ns = begin_ns + (int64_t)(seconds * 1e9);
    bool over = false;
    while (!over && clock_now_ns() < end_ns) {
        state.stock = (uint32_t)index_set_size(&held);
        if (held.count == 0) {
            state.batch = WIRE_NONE;
            ask(0, WIRE_PULL);
            over = take(0);
            state.done = WIRE_NONE;
            continue;
        }
        state.batch = held.ranges[0].first;
        need(index_set_remove(&held, (struct index_range){state.batch, state.batch + 1}));
        state.stock--;
        if (batch_us)
            usleep(batch_us);
        int64_t push_ns = clock_now_ns();
        over = exchange(WIRE_PUSH);
        note(push_ns);
        state.done = state.batch;
        pushed++;
    }
    print((double)(clock_now_ns() - begin_ns) / 1e9);
}

static void begin(char **addresses)
{
    for (; addresses[servers] && servers < SERVERS; servers++) {
        char *colon = strrchr(addresses[servers], ':');
        *colon = '\0';
        link_init(&remotes[servers].link, "a server", addresses[servers],
                  (uint16_t)strtoul(colon + 1, NULL, 10));
    }
    for (size_t i = 0; i < servers; i++)
        greet(i);
    gradient = array_new(layout.parameters, sizeof(float), "a gradient");
    values = array_new(layout.parameters, sizeof(float), "values");
    if (!gradient || !values)
        fail();
    for (size_t i = 0; i < layout.parameters; i++)
        gradient[i] = (float)(i % 7) * 1e-6f;
    for (size_t i = 0; i < servers; i++)
        shard_init(&remotes[i].shard, &layout, servers, i, false);
    ask(0, WIRE_PULL);
    (void)take(0);
    for (size_t i = 1; i < servers; i++) {
        ask(i, WIRE_PULL);
        (void)take(i);
    }
}

/* ---- plain TCP ---------------------------------------------------------- */

static void transfer(int descriptor, char *bytes, size_t count, bool out)
{
    while (count > 0) {
        ssize_t done =
            out ? send(descriptor, bytes, count, 0) : recv(descriptor, bytes, count, MSG_WAITALL);
        if (done <= 0)
            exit(0);
        bytes += done;
        count -= (size_t)done;
    }
}

static void raw(double seconds)
{
    static float numbers[RAW_PARAMETERS], parameters[RAW_PARAMETERS], slot[RAW_PARAMETERS];
    struct optimizer optimizer;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0),
        client = socket(AF_INET, SOCK_STREAM, 0);
    need(optimizer_init(&optimizer, "adagrad", 0.01));
    if (bind(listener, (struct sockaddr *)&address, sizeof(address)) || listen(listener, 1) ||
        getsockname(listener, (struct sockaddr *)&address, &length))
        exit(1);
    for (size_t i = 0; i < RAW_PARAMETERS; i++)
        numbers[i] = (float)(i % 7) * 1e-6f;
    pid_t child = fork();
    if (child == 0) {
        close(client);
        int descriptor = accept(listener, NULL, NULL);
        float *slots[OPTIMIZER_SLOTS_LIMIT] = {slot};
        setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        for (;;) {
            transfer(descriptor, (char *)numbers, sizeof(numbers), false);
            cpu_loops_best()->adagrad(&optimizer, 0.01f, RAW_PARAMETERS, numbers, parameters,
                                      slots);
            transfer(descriptor, (char *)parameters, sizeof(parameters), true);
        }
    }
    if (connect(client, (struct sockaddr *)&address, sizeof(address)))
        exit(1);
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    int64_t begin_ns = clock_now_ns();
    for (; clock_now_ns() < begin_ns + (int64_t)(seconds * 1e9); pushed++) {
        int64_t push_ns = clock_now_ns();
        transfer(client, (char *)numbers, sizeof(numbers), true);
        transfer(client, (char *)parameters, sizeof(parameters), false);
        note(push_ns);
    }
    print((double)(clock_now_ns() - begin_ns) / 1e9);
    close(client);
    waitpid(child, NULL, 0);
}

int main(int count, char **arguments)
{
    if (count < 3 || (count < 4 && strcmp(arguments[2], "raw") != 0)) {
        fprintf(stderr,
                "usage: thin_worker SECONDS BATCH_US HOST:PORT... | thin_worker SECONDS raw\n");
        return 2;
    }
    double seconds = strtod(arguments[1], NULL);
    if (strcmp(arguments[2], "raw") == 0) {
        raw(seconds);
        return 0;
    }
    begin(arguments + 3);
    work(seconds, (useconds_t)strtoul(arguments[2], NULL, 10));
    return 0;
}
