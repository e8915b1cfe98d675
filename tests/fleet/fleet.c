#include "fleet.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEEP_MS "2000"
#define PASS_US 2000          /* the hold of a pass */
#define CONTEND_US 10000      /* those of processes that contend, and their pauses */
#define NODE_TIMEOUT_MS 60000 /* a node that is late is not dead */
#define END_MS 60000          /* each thread that contends first gets its lock once more */

#define KEPT_KINDS 2

const struct fleet_kind fleet_kinds[FLEET_KINDS] = {
    {"reentrant", "orders", true, false}, {"spin", "stock", false, false},
    {"fenced", "ledger", true, false},    {"plain", "seats", true, false},
    {"write", "prices", true, false},     {"read", "prices", false, false},
    {"fair", "tickets", false, true},
};

static const char *const version_names[] = {"old", "new"};

static const char *deployment, *workers[FLEET_VERSIONS];
static char old_worker[4096];

static bool is_deployed(const char *name)
{
    return strcmp(deployment, name) == 0;
}

int fleet_n_kinds(void)
{
    return is_deployed("keep") ? KEPT_KINDS : FLEET_KINDS;
}

static bool in_cluster(void)
{
    return is_deployed("sharded") || is_deployed("plain");
}

void fleet_choose(int argc, char **argv)
{
    const char *below = getenv("RELOCK_TEST_FLEET");

    if (argc != 3)
        exit(EXIT_FAILURE);
    deployment = argv[1];
    workers[FLEET_NEW] = argv[2];
    workers[FLEET_OLD] = old_worker;
    snprintf(old_worker, sizeof(old_worker), "%s/worker", below ? below : "");
    if (!below || access(old_worker, X_OK) != 0) {
        print_error("no earlier version, which ./tests/run.sh fleet builds: skipped\n");
        exit(SERVER_EXIT_SKIP);
    }
}

bool fleet_has_order(const struct fleet *fleet, const struct fleet_kind *kind)
{
    return kind->has_queue || (kind->has_line && !fleet->c);
}

struct probe *fleet_probe(struct fleet *fleet, const char *lock)
{
    if (fleet->c)
        return cluster_probe(fleet->c->cluster, lock);
    return fleet->s ? fleet->s->probe[0] : fleet->f->probe;
}

/* ---- processes ----------------------------------------------------------------------------- */

static void url_of(const struct fleet *fleet, char url[300])
{
    if (fleet->c)
        snprintf(url, 300, "%s/?pubsub=%s", fleet->c->cluster->url, deployment);
    else
        snprintf(url, 300, "%s", fleet->s ? fleet->s->url : fleet->f->server->unix_url);
}

static void path_of(const struct fleet *fleet, const struct fleet_member *member, char path[128])
{
    snprintf(path, 128, "%s/held.%s", fleet->f->server->dir, member->who);
}

void fleet_start(struct fleet *fleet, int i, enum fleet_version version)
{
    struct fleet_member *member = &fleet->members[i];
    char url[300], path[128], recheck[24];

    *member = (struct fleet_member){.version = version};
    snprintf(member->who, sizeof(member->who), "%s%d", version_names[version], fleet->n_starts++);
    url_of(fleet, url);
    path_of(fleet, member, path);

    snprintf(recheck, sizeof(recheck), "%" PRIu64, fleet->recheck_ms);

    const char *argv[] = {workers[version], url, recheck, is_deployed("keep") ? KEEP_MS : "0", path,
                          member->who,      NULL};

    member->player = player_start(argv);
}

static void end_contend(struct fleet *fleet, struct fleet_member *member, int kind)
{
    const char *answer = player_answer_within(member->player, member->contends[kind], END_MS);
    uint64_t n, longest_ms;
    int result;

    if (sscanf(answer, "%d %" SCNu64 " %" SCNu64, &result, &n, &longest_ms) != 3)
        fail_msg("%s: %s answered \"%s\"", member->who, fleet_kinds[kind].name, answer);
    assert_result(result, RELOCK_OK);
    if (longest_ms > fleet->longest_wait_ms[member->version])
        fleet->longest_wait_ms[member->version] = longest_ms;
}

void fleet_end(struct fleet *fleet, int i)
{
    struct fleet_member *member = &fleet->members[i];
    char path[128];

    assert_string_equal(player_do(member->player, "main", "stop"), "0");
    for (int kind = 0; kind < fleet_n_kinds(); kind++)
        if (member->contends[kind] > 0)
            end_contend(fleet, member, kind);
    assert_true(player_dies(member->player));
    path_of(fleet, member, path);
    held_read(&fleet->helds, path);
    member->player = player_end(member->player);
}

struct dead {
    struct probe *probe;
    char name[32];
};

static bool is_gone(void *arg)
{
    const struct dead *dead = arg;

    return probe_n_clients(dead->probe, dead->name) == 0;
}

/* The server may still read what it has sent. So until its connections are gone, a script could
 * give it a place again. */
void fleet_kill(struct fleet *fleet, int i, const struct fleet_kind *kind)
{
    struct fleet_member *member = &fleet->members[i];
    struct dead dead = {.probe = fleet_probe(fleet, kind->lock)};

    member->player = player_end(member->player);
    snprintf(dead.name, sizeof(dead.name), "name=relock:%s:", member->who);
    assert_true(wait_until(is_gone, &dead, SOON_MS));
}

/* ---- orders -------------------------------------------------------------------------------- */

void fleet_do(struct fleet *fleet, int i, const char *verb, const struct fleet_kind *kind)
{
    const char *answer =
        player_do(fleet->members[i].player, "ann", "%s %s %s", verb, kind->name, kind->lock);

    assert_string_equal(answer, "0");
}

static bool is_asleep(void *player)
{
    return player_is_asleep(player, "ann");
}

unsigned fleet_begin_pass(struct fleet *fleet, int i, const struct fleet_kind *kind, int n_before)
{
    struct player *player = fleet->members[i].player;
    unsigned order = player_begin(player, "ann", "pass %s %s %d", kind->name, kind->lock, PASS_US);

    assert_true(wait_until(is_asleep, player, SOON_MS));
    if (kind->has_line && !fleet->c)
        assert_true(probe_wait_in_line(fleet_probe(fleet, kind->lock), kind->lock, n_before + 1));
    return order;
}

struct held fleet_passed(struct fleet *fleet, int i, const struct fleet_kind *kind, unsigned order)
{
    const struct fleet_member *member = &fleet->members[i];
    const char *answer = player_answer(member->player, order);
    struct held held = {.token = 0};
    int result = 0;

    assert_string_not_equal(answer, "");
    if (sscanf(answer, "%d %" SCNu64 " %" SCNu64 " %" SCNu64, &result, &held.from_ns, &held.to_ns,
               &held.token) != 4)
        fail_msg("%s answered \"%s\"", member->who, answer);
    assert_result(result, RELOCK_OK);
    snprintf(held.who, sizeof(held.who), "%s", member->who);
    snprintf(held.kind, sizeof(held.kind), "%s", kind->name);
    snprintf(held.lock, sizeof(held.lock), "%s", kind->lock);
    return held;
}

void fleet_forget_queue(struct fleet *fleet, const struct fleet_kind *kind)
{
    if (kind->has_queue)
        probe_int(fleet_probe(fleet, kind->lock),
                  "DEL redisson_lock_queue:{%s} redisson_lock_timeout:{%s}", kind->lock,
                  kind->lock);
}

void fleet_contend(struct fleet *fleet, int i)
{
    struct fleet_member *member = &fleet->members[i];

    for (int kind = 0; kind < fleet_n_kinds(); kind++)
        member->contends[kind] =
            player_begin(member->player, fleet_kinds[kind].name, "contend %s %s %d",
                         fleet_kinds[kind].name, fleet_kinds[kind].lock, CONTEND_US);
}

/* ---- around tests -------------------------------------------------------------------------- */

int fleet_group_start(void **state)
{
    const struct cluster_options masters = {.masters = 3, .node_timeout_ms = NODE_TIMEOUT_MS};
    struct fleet *fleet = calloc(1, sizeof(*fleet));
    void *servers;
    int r;

    if (!fleet)
        return -1;
    if (in_cluster()) {
        r = clustered_start_with(&servers, &masters);
        fleet->c = servers;
    } else if (is_deployed("sentinel")) {
        r = sentinels_start_steady(&servers);
        fleet->s = servers;
    } else {
        r = fixture_start(&servers);
        fleet->f = servers;
    }
    if (r != 0)
        return r;
    if (!fleet->f)
        fleet->f = fleet->c ? fleet->c->f : fleet->s->f;
    *state = fleet;
    return 0;
}

int fleet_group_stop(void **state)
{
    struct fleet *fleet = *state;
    void *servers = fleet->c ? (void *)fleet->c : fleet->s ? (void *)fleet->s : fleet->f;
    bool is_cluster = fleet->c, has_sentinels = fleet->s;

    free(fleet);
    if (is_cluster)
        return clustered_stop(&servers);
    return has_sentinels ? sentinels_stop(&servers) : fixture_stop(&servers);
}

int fleet_setup(void **state)
{
    struct fleet *fleet = *state;
    void *servers = fleet->c ? (void *)fleet->c : fleet->s ? (void *)fleet->s : fleet->f;

    fleet->recheck_ms = NEVER_MS;
    memset(fleet->longest_wait_ms, 0, sizeof(fleet->longest_wait_ms));
    if (fleet->c)
        return clustered_begin(&servers);
    return fleet->s ? sentinels_begin(&servers) : fixture_begin(&servers);
}

static void forget_all_counters(struct fleet *fleet)
{
    if (!fleet->c) {
        forget_counters(fleet_probe(fleet, ""));
        return;
    }
    for (size_t i = 0; i < fleet->c->cluster->n; i++)
        forget_counters(fleet->c->cluster->node[i].probe);
}

int fleet_teardown(void **state)
{
    struct fleet *fleet = *state;
    void *servers = fleet->c ? (void *)fleet->c : fleet->s ? (void *)fleet->s : fleet->f;

    for (int i = 0; i < FLEET_N; i++)
        fleet->members[i].player = player_end(fleet->members[i].player); /* left by a failed test */
    held_free(&fleet->helds);
    forget_all_counters(fleet);
    if (fleet->c)
        return clustered_end(&servers);
    return fleet->s ? sentinels_end(&servers) : fixture_end(&servers);
}
