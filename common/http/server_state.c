#include "common/http/server_state.h"

enum server_phase server_phase(const struct server *server)
{
    return (enum server_phase)atomic_load(&server->phase);
}

void server_enter(struct server *server, enum server_phase phase)
{
    if (phase > server_phase(server))
        atomic_store(&server->phase, (int)phase);
}

struct guard *server_guard(const struct server *server)
{
    return server->guard;
}

struct service *server_service(const struct server *server)
{
    return atomic_load(&server->service);
}

int64_t server_started_seconds(const struct server *server)
{
    return server->started_seconds;
}

void server_metrics(struct server *server, struct metrics *ret_sum)
{
    http_threads_metrics(&server->threads, ret_sum);
}

int64_t server_connections(struct server *server)
{
    return connections_count(&server->connections);
}

struct thread_pool *server_slow_pool(struct server *server)
{
    return server->slow_pool;
}

struct thread_pool *server_search_pool(struct server *server)
{
    return server->search_pool;
}

const struct response_memory *server_response_memory(const struct server *server)
{
    return &server->threads.memory;
}
