/* Replies of a server on a command connection: to the login, SCRIPT LOAD, EVALSHA, CLIENT KILL
 * and WAIT. The first byte of an input selects the commands: those of a lock, or of a semaphore, a
 * latch and an unleased semaphore. The rest is the play. */
#include "fuzz.h"
#include "hostile.h"

#include "base/clock.h"
#include "count/private.h"
#include "kind/semaphore.h"
#include "lock/state/kind.h"
#include "redis/connect/conn_id.h"
#include "redis/deployment/run.h"
#include "redis/deployment/topology.h"
#include "redis/lane/call.h"
#include "redis/lane/lane.h"
#include "redis/lane/lanes.h"
#include "redis/server/reply.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TIMEOUT_MS 300

/* The deadline of one reply. A flood must time out in it. */
#define LATE_MS 350

enum choice {
    LOGS_IN = 1,
    LOADS_ALL = 2,
    HAS_DEBT = 4,
    WANTS_REPLICAS = 8,
    BYTE_BY_BYTE = 16,
    IDLES = 32, /* 64: all bytes of the corpus have it, so that they can be read */
    HAS_PERMITS = 128,
};

static struct fuzz_play play;
static struct relock_topology *topology;

static void load_all(void)
{
    uint64_t deadline_ms = relock_clock_now_ms() + TIMEOUT_MS;
    char why[RELOCK_WHY_MAX];

    if (relock_call_load_all(atomic_load(&topology->nodes), deadline_ms, why) < 0)
        fuzz_check_text(&play, why);
}

static void read_as_locks_do(const struct redisReply *reply)
{
    struct relock_inspection inspection;
    struct relock_busy busy;
    uint64_t token, place;
    int64_t n_receivers;
    const struct relock_named_failure failures[] = {{"unset", RELOCK_E_NO_PERMITS, "unset"}, {0}};
    const char *why = NULL;

    (void)relock_verdict_lock(reply, &token, &busy);
    (void)relock_verdict_nest(reply);
    (void)relock_verdict_renewal(reply);
    (void)relock_verdict_release(reply, &n_receivers, &place);
    FUZZ_CHECK((relock_verdict_failure(failures, reply, &why) == RELOCK_OK) == !why);
    if (relock_inspection_read(reply, &inspection))
        FUZZ_CHECK(strlen(inspection.holder.id) < sizeof(inspection.holder.id));
}

/* A number is read as Redis writes it, or not at all. */
static void read_number(const struct redisReply *reply)
{
    struct relock_number_reply number;
    const char *text;
    char again[32];
    size_t len;

    if (!relock_number_read(reply, &number))
        return;
    FUZZ_CHECK(!number.is_published || !number.is_refused);
    FUZZ_CHECK(!relock_reply_is_nil(reply) || number.value == 0);
    if (!relock_reply_text(reply, &text, &len))
        return;
    (void)snprintf(again, sizeof(again), "%" PRId64, number.value);
    FUZZ_CHECK(strlen(again) == len && memcmp(again, text, len) == 0);
}

/* So that their sum cannot overflow. */
static void read_permits(const struct redisReply *reply)
{
    const int64_t most = RELOCK_SEMAPHORE_MAX;
    struct relock_permits permits;
    int64_t done;

    if (relock_semaphore_reply(reply, &permits, &done))
        FUZZ_CHECK(permits.n_free >= -most && permits.n_free <= most &&
                   permits.n_out <= (uint64_t)most);
}

/* Reads replies as the calls do. */
static void read_answer(const struct redisReply *reply)
{
    const char *text = NULL;
    int64_t integer = 0;
    size_t len = 0;

    FUZZ_CHECK(reply && !relock_reply_error(reply));
    for (size_t i = 0; i < 6; i++) {
        const struct redisReply *at = relock_reply_at(reply, i);

        (void)relock_reply_integer(at, &integer);
        if (relock_reply_text(at, &text, &len))
            FUZZ_CHECK(strlen(text) <= len);
    }
    if (relock_reply_text(reply, &text, &len))
        FUZZ_CHECK(text[len] == '\0');
    FUZZ_CHECK(!relock_reply_is_nil(reply) || !relock_reply_integer(reply, &integer));
    read_as_locks_do(reply);
    read_number(reply);
    read_permits(reply);
}

/* A late reply must not be taken for the reply to the next command. Only WAIT may have been
 * answered in time and in vain: on a connection that did not write the data. */
static void check_closed(const char *why)
{
    struct relock_lanes *lanes = atomic_load(&topology->nodes)->lanes;
    struct relock_lane *lane;

    if (strstr(why, "ended before WAIT could count replicas"))
        return;
    FUZZ_CHECK(relock_lanes_join(lanes, true, relock_clock_now_ms(), &lane) == RELOCK_OK);
    FUZZ_CHECK(!lane->inflight.exchanges);
    FUZZ_CHECK(lane->inflight.conn.state != RELOCK_SYNC_CONN_READY ||
               relock_wire_is_quiet(&lane->inflight.conn.wire));
    relock_lanes_leave(lanes, lane);
}

static void run(struct relock_call *call)
{
    uint64_t deadline_ms = relock_clock_now_ms() + TIMEOUT_MS;
    int r = relock_call_run(call, topology, deadline_ms);
    int64_t refused;

    FUZZ_CHECK(relock_clock_now_ms() <= deadline_ms + LATE_MS);
    FUZZ_CHECK(strnlen(call->why, sizeof(call->why)) < sizeof(call->why));
    fuzz_check_text(&play, call->why);
    if (r == RELOCK_OK) {
        read_answer(call->reply);
        FUZZ_CHECK(call->acked_replicas == 0 || !relock_reply_integer(call->reply, &refused));
    } else {
        FUZZ_CHECK(r == RELOCK_E_CONN || r == RELOCK_E_SERVER || r == RELOCK_E_AUTH ||
                   r == RELOCK_E_UNSUPPORTED || r == RELOCK_E_NOMEM);
        FUZZ_CHECK(!call->reply && *call->why);
        if (r == RELOCK_E_CONN)
            check_closed(call->why);
        /* Sent and not answered: the server's end of the connection must be killed. */
        FUZZ_CHECK(!call->fence || !*call->fence || call->unanswered);
    }
    relock_call_end(call);
}

static void lock(unsigned choice, struct relock_conn_id **fence)
{
    struct relock_call call = {
        .script = &relock_script_lock,
        .key = {"orders", 6},
        .args = {{"60000", 5}, {"id:7", 4}, {"1", 1}},
        .n_args = 3,
        .fence = choice & HAS_DEBT ? fence : NULL,
        .min_replicas = choice & WANTS_REPLICAS ? 1 : 0,
        .replica_timeout_ms = 100,
        .unanswered = *fence != NULL,
    };

    run(&call);
}

static void inspect(void)
{
    struct relock_call call = {
        .script = &relock_script_inspect,
        .key = {"orders", 6},
        .args = {{"id:7", 4}},
        .n_args = 1,
    };

    run(&call);
}

/* With permits, and so without a reply of a lock. */
static void acquire(struct relock_conn_id **fence)
{
    struct relock_call call = {
        .script = &relock_script_semaphore_lock,
        .key = {"pages", 5},
        .args = {{"60000", 5}, {"permits of id 7", 16}, {"", 0}, {"", 0}, {"-", 1}},
        .n_args = 5,
        .fence = fence,
        .unanswered = *fence != NULL,
    };

    run(&call);
}

static void ask(const struct relock_script *script, bool is_once)
{
    struct relock_call call = {
        .script = script,
        .key = {"pages", 5},
        .args = {{"read", 4}, {"0", 1}, {"redisson_sc", 11}, {"PUBLISH", 7}},
        .n_args = script == &relock_script_get ? 0 : 4,
        .is_once = is_once,
    };

    run(&call);
}

static void converse_about_numbers(unsigned choice)
{
    struct relock_conn_id *fence = NULL;

    if (choice & LOADS_ALL)
        load_all();
    acquire(&fence);
    ask(&relock_script_semaphore_permits, false);
    ask(&relock_script_latch_count_down, true);
    if (choice & IDLES)
        hostile_idle(TIMEOUT_MS * 10);
    ask(&relock_script_unleased_drain, true);
    ask(&relock_script_get, false);
    acquire(&fence);
    relock_conn_id_unref(fence);
}

static void converse(unsigned choice)
{
    struct relock_conn_id *fence = NULL;

    if (choice & LOADS_ALL)
        load_all();
    lock(choice, &fence);
    if (choice & IDLES)
        hostile_idle(TIMEOUT_MS * 10);
    inspect();
    lock(choice, &fence);
    relock_conn_id_unref(fence);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned choice = size > 0 ? data[0] : 0;
    struct relock_log log = {.level = RELOCK_LOG_DEBUG, .sink = fuzz_log, .arg = &play};
    struct relock_options options = {
        .url = choice & LOGS_IN ? "unix:///hostile?db=3" : "unix:///hostile",
        .user = choice & LOGS_IN ? "u" : NULL,
        .password = choice & LOGS_IN ? FUZZ_PASSWORD : NULL,
        .client_name = choice & LOGS_IN ? "fuzz" : NULL,
        .connect_timeout_ms = TIMEOUT_MS,
        .command_timeout_ms = TIMEOUT_MS,
    };
    struct relock_server server;

    play = (struct fuzz_play){data, size, choice & LOGS_IN};
    hostile_begin(data, size, choice & BYTE_BY_BYTE ? 1 : 16384);
    FUZZ_CHECK(relock_server_init(&server, &options, "id", &log) == RELOCK_OK);
    FUZZ_CHECK(relock_topology_new(&server, 1, &topology) == RELOCK_OK);
    if (choice & HAS_PERMITS)
        converse_about_numbers(choice);
    else
        converse(choice);
    topology = relock_topology_free(topology);
    relock_server_deinit(&server);
    hostile_end();
    return 0;
}
