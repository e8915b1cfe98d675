/* Connections to the master that the sentinels name. */
#include "fake_sentinels.h"

#include "base/clock.h"
#include "base/status.h"
#include "redis/lane/sync_conn.h"
#include "redis/server/peer.h"
#include "support/wait.h"
#include "unit/common/places.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct relock_found found;
static char answer_of_place[64];

/* ---- connections to a master that is replaced ---------------------------------------------- */

/* The first `n` sentinels name the server there. */
static struct relock_peer master_at(int place, int n)
{
    static char port[8];

    sscanf(places_text(place), "127.0.0.1 %7s", port);
    snprintf(answer_of_place, sizeof(answer_of_place), "*2\r\n$9\r\n127.0.0.1\r\n$%zu\r\n%s\r\n",
             strlen(port), port);
    for (int i = 0; i < n; i++)
        answer_with(i, answer_of_place);
    return (struct relock_peer){"127.0.0.1", port};
}

static bool is_connecting(const struct relock_sync_conn *conn)
{
    return conn->dial.state == RELOCK_DIAL_CONNECTING;
}

static bool is_logging_in(const struct relock_sync_conn *conn)
{
    return conn->state == RELOCK_SYNC_CONN_LOGGING_IN;
}

static void connect_until(struct relock_sync_conn *conn,
                          bool (*has_come_to)(const struct relock_sync_conn *conn))
{
    uint64_t deadline_ms = deadline_in(SOON_MS);

    while (!has_come_to(conn) && now_ms() < deadline_ms)
        assert_int_equal(relock_sync_conn_connect(conn, relock_clock_in(1)), RELOCK_AGAIN);
    assert_true(has_come_to(conn));
}

static void *report(void *old)
{
    relock_sentinels_retire(server.sentinels, old);
    return NULL;
}

/* Whether the thread waits already or not. */
static void an_attempt_to_connect_to_the_old_master_ends_with_the_report(void **state)
{
    struct relock_peer old = master_at(places_hang(), FAKES);
    struct relock_sync_conn conn;
    pthread_t thread;

    (void)state;

    relock_sync_conn_init(&conn, &server);
    connect_until(&conn, is_connecting);
    assert_int_equal(pthread_create(&thread, NULL, report, &old), 0);
    assert_int_equal(relock_sync_conn_connect(&conn, RELOCK_NEVER), RELOCK_E_CONN);
    pthread_join(thread, NULL);
    assert_non_null(strstr(conn.wire.why, "another server is the master now"));
    relock_sync_conn_deinit(&conn);
}

/* It may be one that only the sentinel can reach. */
static void an_unreachable_master_is_named_by_the_address_that_a_sentinel_gave(void **state)
{
    struct relock_peer master = master_at(places_refuse(), FAKES);
    struct relock_sync_conn conn;
    char address[64];

    (void)state;

    snprintf(address, sizeof(address), "; a sentinel says that the master is at 127.0.0.1:%s",
             master.port);
    relock_sync_conn_init(&conn, &server);
    assert_int_equal(relock_sync_conn_connect(&conn, relock_clock_in(SOON_MS)), RELOCK_E_CONN);
    assert_non_null(strstr(conn.wire.why, "Connection refused"));
    assert_non_null(strstr(conn.wire.why, address));
    relock_sync_conn_deinit(&conn);
}

static void addresses_found_before_a_report_are_outdated(void **state)
{
    const struct relock_peer old = {"127.0.0.1", "6999"};

    (void)state;

    (void)look_up(&found);
    assert_int_equal(found.addresses.n_switches, 0);
    relock_sentinels_retire(server.sentinels, &old);
    (void)look_up(&found);
    assert_int_equal(found.addresses.n_switches, 1);
}

/* ---- attempts whose time ends between two calls -------------------------------------------- */

/* Makes a call so short that it only begins to ask the sentinels. */
static void begin_to_ask(struct relock_sync_conn *conn)
{
    assert_int_equal(relock_sync_conn_connect(conn, relock_clock_now_ms()), RELOCK_AGAIN);
    assert_int_equal(conn->dial.state, RELOCK_DIAL_RESOLVING);
}

static void await_answer(const struct relock_sync_conn *conn)
{
    struct pollfd pollfd = {.fd = conn->dial.fd, .events = POLLIN};

    assert_int_equal(poll(&pollfd, 1, (int)slow_ms(2 * SOON_MS)), 1);
}

/* While no call is there to see it. */
static void end_time(struct relock_sync_conn *conn)
{
    conn->connect_by_ms = relock_clock_now_ms();
}

static bool has_asked_twice(void *arg)
{
    (void)arg;
    return atomic_load(&fakes[0].n_asked) + atomic_load(&fakes[1].n_asked) >= 2;
}

static void is_not_believed(int place, bool (*has_come_to)(const struct relock_sync_conn *conn))
{
    struct relock_sync_conn conn;

    (void)master_at(place, 1);
    relock_sync_conn_init(&conn, &server);
    connect_until(&conn, has_come_to);
    end_time(&conn);
    begin_to_ask(&conn);
    assert_true(wait_until(has_asked_twice, NULL, SOON_MS));
    assert_int_equal(atomic_load(&fakes[1].n_asked), 1);
    relock_sync_conn_deinit(&conn);
}

static void a_master_that_let_an_attempt_run_out_of_time_is_not_believed(void **state)
{
    (void)state;
    is_not_believed(places_hang(), is_connecting);
}

static void a_master_that_let_a_login_run_out_of_time_is_not_believed(void **state)
{
    (void)state;
    is_not_believed(places_listen(), is_logging_in);
}

/* The first call ends before the sentinel answers, and the time is over when the next one comes. */
static void an_answer_that_no_attempt_has_used_is_believed(void **state)
{
    struct relock_sync_conn conn;

    (void)state;

    relock_sync_conn_init(&conn, &server);
    begin_to_ask(&conn);
    await_answer(&conn);
    end_time(&conn);
    begin_to_ask(&conn);
    assert_true(wait_until(has_asked_twice, NULL, SOON_MS));
    assert_int_equal(atomic_load(&fakes[0].n_asked), 2);
    relock_sync_conn_deinit(&conn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SENTINELS_TEST(an_attempt_to_connect_to_the_old_master_ends_with_the_report),
        SENTINELS_TEST(an_unreachable_master_is_named_by_the_address_that_a_sentinel_gave),
        SENTINELS_TEST(addresses_found_before_a_report_are_outdated),
        SENTINELS_TEST(a_master_that_let_an_attempt_run_out_of_time_is_not_believed),
        SENTINELS_TEST(a_master_that_let_a_login_run_out_of_time_is_not_believed),
        SENTINELS_TEST(an_answer_that_no_attempt_has_used_is_believed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
