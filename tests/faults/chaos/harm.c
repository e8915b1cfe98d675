#include "harm.h"

#include "crew.h"
#include "nodes.h"

#include <signal.h>
#include <stdlib.h>

/* The index of this server. */
size_t harm_server(const struct stage *stage, const struct stage_place *place)
{
    return (size_t)(place - stage->servers);
}

static struct probe *probe_of(struct stage *stage, const struct stage_place *place)
{
    return stage->watch.probes[harm_server(stage, place)];
}

/* Cuts its subscriber connection, unless the server is down. */
static void deafen(struct stage *stage, int slot)
{
    char name[WORKER_NAME_MAX];
    long long id;

    if (stage->servers[0].broken_ns != 0)
        return;
    worker_name(slot, name);
    id = probe_subscriber_id(stage->watch.probes[0], name);
    if (id > 0)
        probe_int(stage->watch.probes[0], "CLIENT KILL ID %lld", id);
}

bool harm_is_server(const struct stage *stage, const struct stage_place *place)
{
    return place >= stage->servers && place < stage->servers + SCHEDULE_MAX_SERVERS;
}

static void begin_at_server(struct stage *stage, struct stage_place *place,
                            const struct fault *fault)
{
    struct probe *probe = probe_of(stage, place);

    switch (fault->kind) {
    case FAULT_RESTART:
    case FAULT_REBIRTH:
        server_kill(place->server);
        break;
    case FAULT_HANG:
        server_pause(place->server);
        break;
    case FAULT_CLIENT_KILL:
        probe_int(probe, "CLIENT KILL TYPE normal SKIPME yes");
        probe_int(probe, "CLIENT KILL TYPE pubsub");
        break;
    case FAULT_DEAFEN_ALL:
        probe_int(probe, "CLIENT KILL TYPE pubsub");
        break;
    case FAULT_CLIENT_PAUSE:
        probe_int(probe, "CLIENT PAUSE %llu ALL", (unsigned long long)fault->for_ms);
        break;
    case FAULT_SCRIPT_FLUSH:
        probe_int(probe, "SCRIPT FLUSH");
        break;
    default:
        abort();
    }
}

void harm_begin(struct stage *stage, struct stage_place *place, const struct fault *fault)
{
    if (stage->cluster && harm_is_server(stage, place)) {
        nodes_break(stage->cluster, fault->kind, stage->n_faults[fault->kind],
                    &stage->upheaval_seed);
        return;
    }
    switch (fault->kind) {
    case FAULT_KILL:
        crew_kill(stage, &place->worker);
        break;
    case FAULT_STOP:
        kill(place->worker.pid, SIGSTOP);
        break;
    case FAULT_DEAFEN:
        deafen(stage, fault->slot);
        break;
    case FAULT_CUT:
        proxy_cut(place->proxy, "");
        break;
    case FAULT_STALL:
        proxy_stall(place->proxy, "");
        break;
    case FAULT_REFUSE:
        proxy_refuse(place->proxy, true);
        proxy_cut(place->proxy, "");
        break;
    case FAULT_LATE_COMMAND:
        place->rule = proxy_each(place->proxy, PROXY_HOLD, "EVALSHA");
        break;
    case FAULT_LATE_REPLY:
        place->rule = proxy_each(place->proxy, PROXY_HOLD_REPLY, "EVALSHA");
        break;
    case FAULT_LOST_REPLY:
        place->rule = proxy_each(place->proxy, PROXY_CUT_UNANSWERED, "EVALSHA");
        break;
    case FAULT_DELAY:
        proxy_delay(place->proxy, fault->delay_ms);
        break;
    default:
        begin_at_server(stage, place, fault);
        break;
    }
}

void harm_mend(struct stage *stage, struct stage_place *place)
{
    switch (place->fault.kind) {
    case FAULT_KILL:
        crew_start(stage, place->fault.slot);
        break;
    case FAULT_STOP:
        kill(place->worker.pid, SIGCONT);
        break;
    case FAULT_RESTART:
        server_restart(place->server);
        break;
    case FAULT_REBIRTH:
        server_forget(place->server);
        server_restart(place->server);
        break;
    case FAULT_HANG:
        server_resume(place->server);
        break;
    default:
        break;
    }
    if (stage->cluster && harm_is_server(stage, place))
        nodes_mend(stage->cluster);
    if (place->rule)
        proxy_let_go(place->rule);
    place->rule = NULL;
    if (place->proxy) {
        proxy_flow(place->proxy);
        proxy_reset(place->proxy); /* and forgets the commands that it has seen, which would become
                                      too many */
    }
}
