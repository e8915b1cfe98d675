/*
 * A red lock on five servers, compared with a lock on one of them, and with two hanging servers:
 * the time to acquire it. The floor of both: the same script sent to five bare connections, until
 * the third reply; and to one connection.
 *
 * First on the same machine, where five servers and the client share the cores. Then as over a
 * network, with a proxy before each server that delays all bytes by a millisecond: the time is then
 * that of a round trip, and the proxies cost both sides the same processor time.
 */
#include "bare.h"
#include "rows.h"
#include "support/proxy.h"
#include "support/server.h"

#include <hiredis/hiredis.h>
#include <poll.h>
#include <stdio.h>

#define N 5
#define N_HANGING 2
#define N_SERVERS (N + N_HANGING) /* the hanging servers are additional */
#define SLICE 10
#define REST_NS 1000000 /* until late votes have arrived, and their servers sleep */
#define NETWORK_MS 1

enum { ONE_P50, RED_P50, HANGING_P50, BARE_ONE_P50, BARE_RED_P50, N_SIDES };

struct setting {
    struct server *servers[N_SERVERS];
    struct proxy *proxies[N_SERVERS];
    struct samples samples[N_SIDES];

    struct relock_client *clients[N_SERVERS];
    struct relock_lock *one, *red, *hanging;

    struct redisContext *bare[N];
    unsigned n_unanswered[N];
    struct bare_lock bare_one, bare_red;
};

/* ---- bare ---------------------------------------------------------------------------------- */

static void bare_send(struct redisContext *redis, int n, const char *const *args,
                      const size_t *lens)
{
    int is_sent = 0;

    if (redisAppendCommandArgv(redis, n, (const char **)args, lens) != REDIS_OK)
        die("bare connection: %s", redis->errstr);
    while (!is_sent)
        if (redisBufferWrite(redis, &is_sent) != REDIS_OK)
            die("bare connection: %s", redis->errstr);
}

/* Reads the replies that one connection has; returns how many. */
static unsigned bare_read(struct setting *s, unsigned i)
{
    unsigned n_replies = 0;
    void *reply = NULL;

    if (redisBufferRead(s->bare[i]) != REDIS_OK)
        die("bare connection: %s", s->bare[i]->errstr);
    while (redisGetReplyFromReader(s->bare[i], &reply) == REDIS_OK && reply) {
        freeReplyObject(reply);
        n_replies++;
    }
    s->n_unanswered[i] -= n_replies;
    return n_replies;
}

static unsigned bare_receive(struct setting *s)
{
    struct pollfd ready[N];
    unsigned n_replies = 0;

    for (unsigned i = 0; i < N; i++)
        ready[i] =
            (struct pollfd){.fd = s->n_unanswered[i] > 0 ? s->bare[i]->fd : -1, .events = POLLIN};
    if (poll(ready, N, -1) < 0)
        die("poll failed");
    for (unsigned i = 0; i < N; i++)
        if (ready[i].revents != 0)
            n_replies += bare_read(s, i);
    return n_replies;
}

static void bare_take_red(struct setting *s)
{
    const struct bare_lock *lock = &s->bare_red;

    for (unsigned i = 0; i < N; i++) {
        bare_send(s->bare[i], BARE_TAKE_ARGS, lock->take, lock->take_len);
        s->n_unanswered[i]++;
    }
    for (unsigned n = 0; n < N / 2 + 1;)
        n += bare_receive(s);
}

static bool is_unanswered(const struct setting *s)
{
    for (unsigned i = 0; i < N; i++)
        if (s->n_unanswered[i] > 0)
            return true;
    return false;
}

static void bare_give_red(struct setting *s)
{
    const struct bare_lock *lock = &s->bare_red;

    for (unsigned i = 0; i < N; i++) {
        bare_send(s->bare[i], BARE_GIVE_ARGS, lock->give, lock->give_len);
        s->n_unanswered[i]++;
    }
    while (is_unanswered(s))
        (void)bare_receive(s);
}

/* ---- sides --------------------------------------------------------------------------------- */

static void take(struct setting *s, int side)
{
    switch (side) {
    case ONE_P50:
        ours_take(s->one);
        break;
    case RED_P50:
        ours_take(s->red);
        break;
    case HANGING_P50:
        ours_take(s->hanging);
        break;
    case BARE_ONE_P50:
        if (!bare_take(s->bare[0], &s->bare_one))
            die("%s is held by another", s->bare_one.name);
        break;
    default:
        bare_take_red(s);
        break;
    }
}

static void give(struct setting *s, int side)
{
    switch (side) {
    case ONE_P50:
        ours_give(s->one);
        break;
    case RED_P50:
        ours_give(s->red);
        break;
    case HANGING_P50:
        ours_give(s->hanging);
        break;
    case BARE_ONE_P50:
        bare_give(s->bare[0], &s->bare_one);
        break;
    default:
        bare_give_red(s);
        break;
    }
}

static void run_side(struct setting *s, int side)
{
    for (unsigned i = 0; i < SLICE; i++) {
        uint64_t from_ns = now_ns();

        take(s, side);
        samples_add(&s->samples[side], now_ns() - from_ns);
        give(s, side);
        sleep_ns(REST_NS);
    }
}

static void run_all(struct setting *s, double seconds)
{
    uint64_t until_ns = now_ns() + seconds_to_ns(seconds);

    for (int side = 0; side < N_SIDES; side++)
        samples_clear(&s->samples[side]);
    do {
        for (int side = 0; side < N_SIDES; side++)
            run_side(s, side);
    } while (now_ns() < until_ns);
}

/* ---- the row ------------------------------------------------------------------------------- */

static bool open_servers(struct setting *s, bool network)
{
    for (unsigned i = 0; i < N_SERVERS; i++) {
        char path[108];

        s->servers[i] = server_start(NULL);
        if (!s->servers[i])
            return false;
        if (!network)
            continue;
        snprintf(path, sizeof(path), "%.80s/proxy", s->servers[i]->dir);
        s->proxies[i] = proxy_start(s->servers[i], path);
        proxy_delay(s->proxies[i], NETWORK_MS);
    }
    return true;
}

static void close_servers(struct setting *s)
{
    for (unsigned i = 0; i < N_SERVERS; i++) {
        proxy_stop(s->proxies[i]);
        server_stop(s->servers[i]);
    }
}

static const char *url_of(const struct setting *s, unsigned i)
{
    return s->proxies[i] ? proxy_url(s->proxies[i]) : s->servers[i]->unix_url;
}

/* On `N` servers, from server `first` on. */
static struct relock_lock *new_red(struct setting *s, unsigned first, const char *what)
{
    struct relock_lock *members[N], *red;
    char name[NAME_MAX_LEN];

    row_name(name, what, 0);
    for (unsigned i = 0; i < N; i++)
        members[i] = ours_lock(s->clients[first + i], name);
    ours_must(relock_redlock_new(members, N, &red), "red lock");
    for (unsigned i = 0; i < N; i++)
        relock_lock_free(members[i]);
    return red;
}

static void open_sides(struct setting *s)
{
    char name[NAME_MAX_LEN];

    for (unsigned i = 0; i < N_SERVERS; i++)
        s->clients[i] = ours_client(url_of(s, i));
    for (unsigned i = 0; i < N; i++)
        s->bare[i] = bare_connect(url_of(s, i));
    row_name(name, "ours", 0);
    s->one = ours_lock(s->clients[0], name);
    s->red = new_red(s, 0, "ours_red");
    s->hanging = new_red(s, N_HANGING, "ours_han");
    row_name(name, "bare", 0);
    bare_lock_init(&s->bare_one, name, 1);
    row_name(name, "bare_red", 0);
    bare_lock_init(&s->bare_red, name, 1);
}

static void close_sides(struct setting *s)
{
    relock_lock_free(s->one);
    relock_lock_free(s->red);
    relock_lock_free(s->hanging);
    for (unsigned i = 0; i < N_SERVERS; i++)
        relock_client_free(s->clients[i]);
    for (unsigned i = 0; i < N; i++)
        bare_close(s->bare[i]);
    for (int side = 0; side < N_SIDES; side++)
        samples_free(&s->samples[side]);
}

static void add_lines(struct result *result)
{
    result_add_line(result, "one_p50", "relock, one server, p50", "us");
    result_add_line(result, "red_p50", "relock, five servers, p50", "us");
    result_add_line(result, "hanging_p50", "relock, five servers of which two hang, p50", "us");
    result_add_line(result, "bare_one_p50", "bare EVALSHA to one, p50", "us");
    result_add_line(result, "bare_red_p50", "bare EVALSHA to five at once, third reply, p50", "us");
    result_add_ratio(result, "five servers / one", RED_P50, ONE_P50, NO_TARGET, 0);
    result_add_ratio(result, "two of five hang / none", HANGING_P50, RED_P50, AT_MOST, 1.5);
    result_add_ratio(result, "bare, five servers / one", BARE_RED_P50, BARE_ONE_P50, NO_TARGET, 0);
    result_add_ratio(result, "five servers: relock / bare", RED_P50, BARE_RED_P50, AT_MOST, 1.0);
}

static void run_in(const struct plan *plan, struct result *result, bool network)
{
    struct setting s = {0};

    if (!open_servers(&s, network)) {
        result_note(result, "there is no redis-server and no valkey-server");
        return;
    }
    add_lines(result);
    open_sides(&s);
    for (unsigned i = N; i < N_SERVERS; i++)
        server_pause(s.servers[i]);
    run_all(&s, plan->seconds);
    for (unsigned round = 0; round < plan->rounds; round++) {
        run_all(&s, N_SIDES * plan->seconds);
        for (int side = 0; side < N_SIDES; side++)
            series_add(&result->lines[side].series, samples_percentile_us(&s.samples[side], 50));
    }
    for (unsigned i = N; i < N_SERVERS; i++)
        server_resume(s.servers[i]);
    close_sides(&s);
    close_servers(&s);
}

void row_red(const struct plan *plan, struct report *report)
{
    run_in(plan, report_add(report, "red", "red lock, acquire, all on one machine"), false);
    run_in(plan, report_add(report, "red_network", "red lock, acquire, a millisecond away"), true);
}
