#include "stage.h"

#include "crew.h"
#include "first.h"
#include "harm.h"
#include "support/wait.h"
#include "toll.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#define NS_PER_MS 1000000
#define END_MS 60000 /* for the turns of the last waiters */

/* Fifty processes may keep a node from the processor. */
#define HOT_NODE_TIMEOUT_MS 60000

/* ---- faults -------------------------------------------------------------------------------- */

static struct stage_place *place_of(struct stage *stage, int slot)
{
    return slot < 0 ? &stage->servers[SCHEDULE_SERVER - slot] : &stage->places[slot];
}

/* Whether the fault breaks a server. A slot that moves does not. */
static bool breaks_server(const struct stage *stage, const struct stage_place *place)
{
    return harm_is_server(stage, place) && place->fault.kind != FAULT_MOVE;
}

/* The move of a slot, in which a reentrant lock can be acquired, and others cannot. */
static bool excuses_none(const struct stage *stage, const struct stage_place *place)
{
    return place->fault.kind == FAULT_MOVE &&
           stage->names.sorts[stage->move.lock] == HISTORY_REENTRANT;
}

/* One of several servers belongs to no process's place. */
static int slot_in_history(const struct stage *stage, const struct stage_place *place)
{
    if (harm_is_server(stage, place) && (stage->n_servers > 1 || excuses_none(stage, place)))
        return SCHEDULE_MAX_SLOTS + (int)harm_server(stage, place);
    return place->fault.slot;
}

static void end(struct stage *stage, struct stage_place *place)
{
    struct history_record record = {.kind = HISTORY_FAULT,
                                    .slot = slot_in_history(stage, place),
                                    .from_ns = place->broken_ns,
                                    .value = place->fault.kind};

    if (place->broken_ns == 0)
        return;
    harm_mend(stage, place);
    if (breaks_server(stage, place))
        watch_mend(&stage->watch, harm_server(stage, place));
    place->broken_ns = 0;
    record.to_ns = history_now_ns();
    history_write(&stage->history, &record);
}

bool stage_is_due(const struct stage_place *place)
{
    return history_now_ns() >= place->broken_ns + place->fault.for_ms * NS_PER_MS;
}

/* Whether a slot moves there for longer than was planned: harm.c. */
static bool is_moving(const struct stage *stage, const struct stage_place *place)
{
    return place->broken_ns != 0 && excuses_none(stage, place) && !stage_is_due(place);
}

/* One lock after the other. */
static void aim(struct stage *stage, struct fault *fault)
{
    int slot = first_in_line(stage, (int)(stage->n_faults[fault->kind] % (size_t)stage->names.n));

    if (slot < 0)
        return;
    fault->slot = slot;
    stage->n_aimed++;
}

void stage_break(struct stage *stage, const struct fault *planned)
{
    struct fault fault = *planned;
    struct stage_place *place;

    if (fault.aims && !harm_is_down(stage))
        aim(stage, &fault);
    place = place_of(stage, fault.slot);
    if (is_moving(stage, place))
        return;
    end(stage, place);
    place->fault = fault;
    if (breaks_server(stage, place))
        watch_break(&stage->watch, harm_server(stage, place));
    place->broken_ns = history_now_ns();
    stage->n_faults[fault.kind]++;
    harm_begin(stage, place, &fault);
}

static void step_place(struct stage *stage, struct stage_place *place, bool is_end)
{
    if (is_end || stage_is_due(place))
        end(stage, place);
}

void stage_step(struct stage *stage, bool is_end)
{
    int status;

    for (int i = 0; i < stage->n_servers; i++)
        step_place(stage, &stage->servers[i], is_end);
    for (int i = 0; i < stage->n_workers; i++) {
        step_place(stage, &stage->places[i], is_end);
        if (worker_has_ended(&stage->places[i].worker, &status)) {
            crew_blame(stage, &stage->places[i].worker, status);
            crew_start(stage, i);
        }
    }
    watch_look(&stage->watch);
}

/* ---- beginning and end --------------------------------------------------------------------- */

static struct proxy *start_proxy(const struct server *server, int number)
{
    char path[256];

    snprintf(path, sizeof(path), "%.80s/proxy.%d", server->dir, number);
    return proxy_start(server, path);
}

static const char *url_of(const struct stage_place *place)
{
    if (place->proxy)
        return proxy_url(place->proxy);
    return place->server->tls_port > 0 ? place->server->tls_url : place->server->unix_url;
}

/* For the workers: in place of the CAs of the system. Without TLS there is none. */
static void trust(const char *ca_file)
{
    if (*ca_file)
        setenv("SSL_CERT_FILE", ca_file, 1);
}

/* Starts the servers; several, with a proxy before each. */
static bool open_servers(struct stage *stage)
{
    const struct server_options options = {.keeps_data = true, .tls = stage->has_tls};
    struct server *servers[SCHEDULE_MAX_SERVERS];
    size_t n = (size_t)stage->n_servers, size = 0;

    for (size_t i = 0; i < n; i++) {
        struct stage_place *place = &stage->servers[i];

        place->server = servers[i] = server_start(&options);
        if (!servers[i])
            return false;
        if (n > 1)
            place->proxy = start_proxy(servers[i], 0);
        trust(servers[i]->ca_file);
        size += (size_t)snprintf(stage->urls + size, sizeof(stage->urls) - size, "%s%s",
                                 i > 0 ? "," : "", url_of(place));
    }
    watch_start(&stage->watch, servers, n, &stage->history, &stage->names);
    return true;
}

static bool open_cluster(struct stage *stage)
{
    bool has_proxies = stage->set != NAMES_HOT && !stage->has_tls;

    stage->cluster = cluster_start(&(struct cluster_options){
        .masters = 3,
        .replicas = 1,
        .tls = has_proxies || stage->has_tls,
        .proxies = has_proxies,
        .node_timeout_ms = stage->set == NAMES_HOT ? HOT_NODE_TIMEOUT_MS : 0});
    if (!stage->cluster)
        return false;
    snprintf(stage->urls, sizeof(stage->urls), "%s%s",
             stage->has_tls ? stage->cluster->tls_url : stage->cluster->url,
             stage->is_plain ? "?pubsub=plain" : "");
    trust(stage->cluster->ca_file);
    stage->upheaval_seed = (unsigned)stage->seed;
    watch_start_cluster(&stage->watch, stage->cluster, &stage->history, &stage->names);
    return true;
}

/* Whether each worker has a network of its own. */
static bool has_networks(const struct stage *stage)
{
    return stage->set == NAMES_MIXED && !stage->has_tls && !stage->is_cluster;
}

/* All nodes, or the only server. */
static void tell_servers(struct stage *stage, const char *command)
{
    if (!stage->cluster)
        probe_int(stage->watch.probes[0], command);
    for (size_t i = 0; stage->cluster && i < stage->cluster->n; i++)
        probe_int(stage->cluster->node[i].probe, command);
}

/* For the life of the run: a semaphore that nobody has set has no permits. */
static void set_permits(struct stage *stage)
{
    const char *replicas = stage->is_cluster ? "1" : "2";

    for (int lock = 0; lock < stage->names.n; lock++) {
        struct probe *probe;

        if (stage->names.sorts[lock] != HISTORY_SEMAPHORE)
            continue;
        probe = stage->set == NAMES_EVEN ? stage->failover.sentinels.probe[0]
                                         : watch_place(&stage->watch, lock);
        probe_int(probe, "SET %s %d", names_text(lock), NAMES_N_PERMITS);
        if (stage->is_cluster || stage->set == NAMES_EVEN)
            probe_int(probe, "WAIT %s %d", replicas, END_MS);
    }
}

bool stage_open(struct stage *stage)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/history", stage->dir);
    history_open(&stage->history, path);
    names_draw(&stage->names, stage->set, stage->seed);
    if (stage->set == NAMES_EVEN) {
        failover_open(&stage->failover, &stage->history, stage->has_tls);
        trust(stage->failover.sentinels.server[0]->ca_file);
        snprintf(stage->urls, sizeof(stage->urls), "%s", failover_url(&stage->failover));
    }
    if (!(stage->is_cluster ? open_cluster(stage) : open_servers(stage)))
        return false;
    set_permits(stage);
    if (stage->set == NAMES_HOT)
        watch_keep_lines(&stage->watch, stage->dir);
    if (stage->is_silent)
        tell_servers(stage, "ACL SETUSER default resetchannels");
    pulse_start(&stage->pulse, &stage->history, SCHEDULE_SERVER, 0);
    stage->until_ns = history_now_ns() + stage->for_ms * NS_PER_MS;
    for (int i = 0; i < stage->n_workers; i++) {
        if (has_networks(stage))
            stage->places[i].proxy = start_proxy(stage->servers[0].server, i);
        crew_start(stage, i);
    }
    return true;
}

void stage_forget(struct stage *stage)
{
    size_t n_enough = (size_t)stage->n_servers / 2 + 1;

    for (int lock = 0; lock < stage->names.n; lock++) {
        if (watch_count(&stage->watch, lock) < n_enough)
            continue;
        for (size_t i = 0; i < n_enough; i++)
            probe_int(stage->watch.probes[i], "FLUSHALL");
        return;
    }
}

void stage_let_publish(struct stage *stage)
{
    tell_servers(stage, "ACL SETUSER default allchannels");
    /* They subscribe when they return. */
    tell_servers(stage, "CLIENT KILL TYPE normal SKIPME yes");
}

/* Those that threads of workers had: toll.h. */
static void write_numbers(struct stage *stage)
{
    redisReply *keys = probe_reply(stage->watch.probes[0], "KEYS " TOLL_KEYS);

    for (size_t i = 0; keys && i < keys->elements; i++) {
        struct history_record record;

        if (!toll_read_name(keys->element[i]->str, &record))
            abort();
        record.value = probe_int(stage->watch.probes[0], "GET %s", keys->element[i]->str);
        history_write(&stage->history, &record);
    }
    freeReplyObject(keys);
}

static bool are_idle(void *arg)
{
    struct stage *stage = arg;

    watch_look(&stage->watch);
    for (int i = 0; i < stage->n_workers; i++)
        if (!worker_is_idle(&stage->places[i].worker))
            return false;
    return true;
}

void stage_finish(struct stage *stage)
{
    int status;

    if (!wait_until(are_idle, stage, END_MS)) {
        fprintf(stderr, "not all workers are done\n");
        stage->failed = true;
    }
    watch_all_free(&stage->watch,
                   worker_longest_lease_ms(stage->lease_ms, stage->names.sorts[0]) + SOON_MS / 2);
    if (stage->has_numbers)
        write_numbers(stage);
    for (int i = 0; i < stage->n_workers; i++) {
        struct worker *worker = &stage->places[i].worker;

        if (stage->failed && !worker_is_idle(worker)) {
            worker_kill(worker);
            continue;
        }
        status = worker_stop(worker);
        if (status != 0)
            crew_blame(stage, worker, status);
    }
}

void stage_close(struct stage *stage)
{
    for (int i = 0; i < stage->n_workers; i++) {
        worker_kill(&stage->places[i].worker);
        proxy_stop(stage->places[i].proxy);
    }
    watch_stop(&stage->watch);
    pulse_stop(&stage->pulse);
    history_close(&stage->history);
    for (int i = 0; i < stage->n_servers; i++) {
        proxy_stop(stage->servers[i].proxy);
        server_stop(stage->servers[i].server);
    }
    cluster_stop(stage->cluster);
    if (stage->set == NAMES_EVEN)
        failover_close(&stage->failover);
}
