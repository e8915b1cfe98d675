/*
 * Whether a connection retries its socket before it sleeps, over each way to a server: counted, not
 * timed. What is worth it: unit/redis/lane/spin_test.c.
 */
#include "base/clock.h"
#include "redis/lane/private.h"
#include "redis/lane/sync_conn.h"
#include "redis/server/reply.h"
#include "support/fixture.h"
#include "support/proxy.h"

#include <sched.h>
#include <string.h>

#define N_WAITS 600
#define N_TRIALS 4 /* one in 256, and the first */
#define N_ROOMY 16 /* waits in a row without competition, before a connection may retry */
#define DELAY_MS 1 /* each way, so a reply takes forty times as long as a thread retries */
#define FAST_NS 1  /* no wait is so short */
#define SLOW_NS 150000

struct way {
    struct relock_server server;
    struct relock_sync_conn conn;
};

static void reach(struct way *way, struct fixture *f, const char *url, unsigned flags)
{
    static const struct relock_log silent;
    struct relock_options options = {.url = url,
                                     .flags = flags,
                                     .tls_ca_file = f->server->ca_file,
                                     .connect_timeout_ms = slow_ms(SOON_MS),
                                     .command_timeout_ms = slow_ms(SOON_MS)};
    int r;

    if (strncmp(url, "rediss://", 9) != 0)
        options.tls_ca_file = NULL;
    r = relock_server_init(&way->server, &options, "id", &silent);
    if (r == RELOCK_E_UNSUPPORTED)
        skip(); /* a library without TLS */
    assert_int_equal(r, RELOCK_OK);
    relock_sync_conn_init(&way->conn, &way->server);
    assert_int_equal(relock_sync_conn_connect(&way->conn, deadline_in(SOON_MS)), RELOCK_OK);
}

static void leave(struct way *way)
{
    relock_sync_conn_deinit(&way->conn);
    relock_server_deinit(&way->server);
}

static unsigned n_retries;

int __real_relock_wire_fill_at_once(struct relock_wire *wire);
int __wrap_relock_wire_fill_at_once(struct relock_wire *wire);

int __wrap_relock_wire_fill_at_once(struct relock_wire *wire)
{
    n_retries++;
    return __real_relock_wire_fill_at_once(wire);
}

/* Returns whether the thread has retried. */
static bool ping(struct relock_sync_conn *conn)
{
    unsigned n_before = n_retries;
    struct redisReply *reply = NULL;

    relock_command_words(&conn->wire.out, "PING");
    assert_int_equal(relock_sync_conn_send(conn, deadline_in(SOON_MS)), RELOCK_OK);
    assert_int_equal(
        relock_sync_conn_receive_soon(conn, relock_clock_now_ms(), deadline_in(SOON_MS), &reply),
        RELOCK_OK);
    assert_true(relock_reply_is(reply, "PONG"));
    relock_reply_free(reply);
    return n_retries > n_before;
}

/* What the connection has learned so far; the next wait is no trial. */
static void know(struct relock_spin *spin, uint64_t spinning_ns, uint64_t sleeping_ns)
{
    spin->spinning_ns = spinning_ns;
    spin->sleeping_ns = sleeping_ns;
    spin->n_roomy = N_ROOMY;
    spin->is_crowded = false;
    spin->n = 1;
}

static void does_what_was_faster(struct fixture *f, const char *url)
{
    struct way way;
    struct relock_spin *spin = &way.conn.spin;

    reach(&way, f, url, 0);
    for (int i = 0; i < N_WAITS; i++) {
        know(spin, FAST_NS, SLOW_NS);
        assert_true(ping(&way.conn));
        assert_int_not_equal(spin->spinning_ns, FAST_NS); /* it has learned of that wait, */
        assert_int_equal(spin->sleeping_ns, SLOW_NS);     /* and as of one with retries */
        know(spin, SLOW_NS, FAST_NS);
        assert_false(ping(&way.conn));
        assert_int_not_equal(spin->sleeping_ns, FAST_NS);
        assert_int_equal(spin->spinning_ns, SLOW_NS);
    }
    leave(&way);
}

static void a_thread_retries_a_unix_socket_where_that_was_faster(void **state)
{
    struct fixture *f = *state;

    does_what_was_faster(f, f->server->unix_url);
}

static void a_thread_retries_over_tcp_where_that_was_faster(void **state)
{
    struct fixture *f = *state;

    does_what_was_faster(f, f->server->tcp_url);
}

static void a_thread_retries_over_tls_where_that_was_faster(void **state)
{
    struct fixture *f = *state;

    does_what_was_faster(f, f->server->tls_url);
}

/* With the times that it has measured. */
static void a_thread_sleeps_where_the_server_is_distant(void **state)
{
    struct fixture *f = *state;
    struct proxy *proxy = proxy_start(f->server, NULL);
    struct way way;
    int n_spun = 0;

    proxy_delay(proxy, DELAY_MS);
    reach(&way, f, proxy_url(proxy), 0);
    for (int i = 0; i < N_WAITS; i++)
        n_spun += ping(&way.conn);
    assert_in_range(n_spun, 1, N_TRIALS);
    leave(&way);
    proxy_stop(proxy);
}

static void with_no_spin_a_thread_sleeps_at_once(void **state)
{
    struct fixture *f = *state;
    struct way way;

    reach(&way, f, f->server->unix_url, RELOCK_NO_SPIN);
    for (int i = 0; i < N_WAITS; i++) {
        know(&way.conn.spin, FAST_NS, SLOW_NS);
        assert_false(ping(&way.conn));
    }
    leave(&way);
}

static int start(void **state)
{
    cpu_set_t set;
    int r;

    if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) < 2)
        fixture_skip(); /* no thread retries */
    r = fixture_start_with(state, &(struct server_options){.tcp = true, .tls = true});
    return r;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_thread_retries_a_unix_socket_where_that_was_faster),
        SERVER_TEST(a_thread_retries_over_tcp_where_that_was_faster),
        SERVER_TEST(a_thread_retries_over_tls_where_that_was_faster),
        SERVER_TEST(a_thread_sleeps_where_the_server_is_distant),
        SERVER_TEST(with_no_spin_a_thread_sleeps_at_once),
    };

    return cmocka_run_group_tests(tests, start, fixture_stop);
}
