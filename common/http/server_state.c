/* SPDX-License-Identifier: MIT */
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

struct service *server_service(const struct server *server)
{
    return atomic_load(&server->service);
}
