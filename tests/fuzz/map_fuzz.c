/* Words of a cluster node about slots. By the first byte of an input, the rest is the error
 * of a command, or a play: the replies to the login and to CLUSTER SLOTS. */
#include "fuzz.h"
#include "hostile.h"

#include "base/clock.h"
#include "redis/deployment/private.h"
#include "redis/server/reply.h"

#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS 300

/* Nodes that one play makes. */
#define MOST_NODES 64

enum choice {
    IS_ERROR = 1,
    LOGS_IN = 2,
    BYTE_BY_BYTE = 4,
};

static struct fuzz_play play;
static struct relock_members members;

static void check_address(const struct relock_address *address)
{
    FUZZ_CHECK(address->port > 0);
    FUZZ_CHECK(strnlen(address->host, sizeof(address->host)) <= RELOCK_HOST_MAX);
}

/* ---- the error of a command ---------------------------------------------------------------- */

static void redirect(const uint8_t *data, size_t size)
{
    char *error = malloc(size + 1);
    struct relock_redirect redirect;

    FUZZ_CHECK(error);
    memcpy(error, data, size);
    error[size] = '\0';
    if (relock_slot_map_redirect(error, &redirect)) {
        FUZZ_CHECK(redirect.kind == RELOCK_REDIRECT_MOVED || redirect.kind == RELOCK_REDIRECT_ASK);
        FUZZ_CHECK(redirect.slot < RELOCK_SLOTS);
        FUZZ_CHECK(relock_refusal_of(error) == RELOCK_REFUSED_MOVED);
        check_address(&redirect.node);
    }
    free(error);
}

/* ---- the map ------------------------------------------------------------------------------- */

static void take_range(const struct relock_slot_range *range, const struct relock_origin *origin)
{
    struct relock_node *node = NULL, *same = NULL;

    FUZZ_CHECK(range->first <= range->last && range->last < RELOCK_SLOTS);
    check_address(&range->master);
    FUZZ_CHECK(relock_members_assign(&members, range, origin, &node) == RELOCK_OK && node);
    FUZZ_CHECK(relock_members_at(&members, &range->master, origin, &same) == RELOCK_OK);
    FUZZ_CHECK(same == node && relock_members_has_slot(node));
    FUZZ_CHECK(relock_members_of_slot(&members, range->last) == node);
    fuzz_check_text(&play, node->server->label);
}

static void take_map(const struct redisReply *map, const struct relock_origin *origin)
{
    struct relock_slot_range range;
    size_t n = 0;

    for (size_t i = 0; relock_reply_at(map, i) && n < MOST_NODES; i++) {
        if (!relock_slot_map_read(map, i, &range))
            continue;
        take_range(&range, origin);
        n++;
    }
}

static void ask(const struct relock_server *server)
{
    static struct relock_slot_query query;
    uint64_t deadline_ms = relock_clock_now_ms() + TIMEOUT_MS;
    atomic_bool stops = false;
    struct redisReply *map = NULL;
    int r;

    memset(&query, 0, sizeof(query));
    query.question.stops = &stops;
    query.question.deadline_ms = deadline_ms;
    r = relock_slot_query_ask(&query, server, &map);
    if (r == RELOCK_OK) {
        take_map(map, &(struct relock_origin){server->url.host, query.ip});
        relock_reply_free(map);
        return;
    }
    FUZZ_CHECK(r == RELOCK_E_CONN || r == RELOCK_E_SERVER || r == RELOCK_E_AUTH ||
               r == RELOCK_E_UNSUPPORTED || r == RELOCK_E_NOMEM);
    FUZZ_CHECK(!map && *query.why);
    fuzz_check_text(&play, query.why);
}

static void query(const uint8_t *data, size_t size)
{
    struct relock_log log = {.level = RELOCK_LOG_DEBUG, .sink = fuzz_log, .arg = &play};
    struct relock_options options = {
        .url = "redis+cluster://127.0.0.1:1",
        .password = play.has_password ? FUZZ_PASSWORD : NULL,
        .connect_timeout_ms = TIMEOUT_MS,
        .command_timeout_ms = TIMEOUT_MS,
    };
    _Atomic(struct relock_node *) nodes = NULL;
    struct relock_server cluster, seed;

    hostile_begin(data, size, *data & BYTE_BY_BYTE ? 1 : 16384);
    FUZZ_CHECK(relock_server_init(&cluster, &options, "id", &log) == RELOCK_OK);
    FUZZ_CHECK(relock_server_init_node(&seed, &cluster, "127.0.0.1", 1) == RELOCK_OK);
    relock_members_init(&members, &cluster, 1, &nodes);
    ask(&seed);
    relock_members_deinit(&members);
    relock_server_deinit_node(&seed);
    relock_server_deinit(&cluster);
    hostile_end();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    play = (struct fuzz_play){data, size, *data & LOGS_IN};
    if (*data & IS_ERROR)
        redirect(data + 1, size - 1);
    else
        query(data, size);
    return 0;
}
