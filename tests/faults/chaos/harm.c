#include "harm.h"

#include "crew.h"
#include "nodes.h"
#include "rush.h"

#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The index of this server. */
size_t harm_server(const struct stage *stage, const struct stage_place *place)
{
    return (size_t)(place - stage->servers);
}

static struct probe *probe_of(struct stage *stage, const struct stage_place *place)
{
    return stage->watch.probes[harm_server(stage, place)];
}

bool harm_is_down(const struct stage *stage)
{
    const struct stage_place *place = &stage->servers[0];

    return place->broken_ns != 0 && place->fault.kind != FAULT_MOVE;
}

/* Ends the connections of a worker to a server, or only those that subscribe. */
static void sever_at(struct probe *probe, int slot, bool only_subscribers)
{
    redisReply *clients = probe_reply(probe, only_subscribers ? "CLIENT LIST TYPE pubsub"
                                                              : "CLIENT LIST TYPE normal");
    char name[WORKER_NAME_MAX], word[WORKER_NAME_MAX + 8];
    char *rest = clients ? clients->str : NULL;

    worker_name(slot, name);
    snprintf(word, sizeof(word), " name=%s:", name);
    for (char *line = rest ? strtok_r(rest, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest))
        if (strstr(line, word))
            probe_int(probe, "CLIENT KILL ID %lld", strtoll(line + strlen("id="), NULL, 10));
    freeReplyObject(clients);
}

/* At all servers, unless they are down. */
static void sever(struct stage *stage, int slot, bool only_subscribers)
{
    size_t n = stage->cluster ? stage->cluster->n : 1;

    for (size_t i = 0; i < n && !harm_is_down(stage); i++) {
        struct probe *probe =
            stage->cluster ? stage->cluster->node[i].probe : stage->watch.probes[0];

        sever_at(probe, slot, true);
        if (!only_subscribers)
            sever_at(probe, slot, false);
    }
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

/* Each of the hot locks in turn. */
static int turn_of(const struct stage *stage, enum fault_kind kind)
{
    return (int)(stage->n_faults[kind] % (size_t)stage->names.n);
}

static void begin_move(struct stage *stage, int lock)
{
    struct nodes_move *move = &stage->move;

    move->lock = lock;
    nodes_begin_move(stage->cluster, move, &stage->upheaval_seed);
    watch_move(&stage->watch, lock, move->slot, stage->cluster->node[move->to].probe);
    if (!move->is_open) {
        watch_moved(&stage->watch, lock);
        stage->servers[0].fault.for_ms = 0;
    } else if (stage->names.sorts[lock] == HISTORY_REENTRANT) {
        stage->servers[0].fault.for_ms = rush_is_felt_in_ms();
    }
}

static void end_move(struct stage *stage)
{
    if (!stage->move.is_open)
        return;
    nodes_end_move(stage->cluster, &stage->move);
    watch_moved(&stage->watch, stage->move.lock);
}

static void begin_at_nodes(struct stage *stage, const struct fault *fault)
{
    int lock = turn_of(stage, fault->kind);

    switch (fault->kind) {
    case FAULT_MASTER_KILL:
    case FAULT_MASTER_STOP:
    case FAULT_HAND_OVER:
        nodes_fail(stage->cluster, fault->kind, names_text(lock));
        break;
    case FAULT_MOVE:
        begin_move(stage, lock);
        break;
    default:
        nodes_break(stage->cluster, fault->kind, stage->n_faults[fault->kind],
                    &stage->upheaval_seed);
        break;
    }
}

void harm_begin(struct stage *stage, struct stage_place *place, const struct fault *fault)
{
    if (stage->cluster && harm_is_server(stage, place)) {
        begin_at_nodes(stage, fault);
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
    case FAULT_SEVER:
        sever(stage, fault->slot, fault->kind == FAULT_DEAFEN);
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
    case FAULT_REBIRTH: /* ended too early, it is a restart: leases may go on */
        if (stage_is_due(place))
            server_forget(place->server);
        server_restart(place->server);
        break;
    case FAULT_HANG:
        server_resume(place->server);
        break;
    default:
        break;
    }
    if (stage->cluster && harm_is_server(stage, place)) {
        end_move(stage);
        nodes_mend(stage->cluster);
    }
    if (place->rule)
        proxy_let_go(place->rule);
    place->rule = NULL;
    if (place->proxy) {
        proxy_flow(place->proxy);
        proxy_reset(place->proxy); /* and forgets the commands that it has seen, which would become
                                      too many */
    }
}
