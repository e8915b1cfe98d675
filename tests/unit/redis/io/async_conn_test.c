/* How long a server has been silent. */
#include "redis/io/private.h"

#include "base/clock.h"
#include "base/status.h"
#include "redis/server/loop.h"
#include "redis/server/server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct relock_log sink = {.level = -1};
static struct relock_server server;
static struct relock_loop *loop;
static struct relock_async_conn conn;

static uint64_t never(void *arg)
{
    (void)arg;
    return RELOCK_NEVER;
}

/* Nobody listens there. */
static int begin(void **state)
{
    static const struct relock_async_conn_ops ops = {0};
    const struct relock_options options = {.url = "unix:///tmp/relock-nobody/socket",
                                           .connect_timeout_ms = 1000,
                                           .command_timeout_ms = 1000};

    (void)state;
    if (relock_server_init(&server, &options, "id", &sink) != RELOCK_OK ||
        relock_loop_new(never, NULL, &loop) != RELOCK_OK)
        return -1;
    relock_async_conn_init(&conn, relock_loop_ev(loop), &server, &ops, NULL);
    return 0;
}

static int end(void **state)
{
    (void)state;
    relock_async_conn_deinit(&conn);
    loop = relock_loop_free(loop);
    relock_server_deinit(&server);
    return 0;
}

static void a_server_that_cannot_be_reached_is_silent_since_the_attempt(void **state)
{
    uint64_t before_ms = relock_clock_now_ms();

    (void)state;

    assert_true(conn.silent_ms == RELOCK_NEVER);
    relock_async_conn_open(&conn);
    assert_true(conn.silent_ms >= before_ms && conn.silent_ms <= relock_clock_now_ms());
}

/* It may be opened again much later, by a wait that has not yet asked anything. */
static void a_closed_connection_forgets_that_the_server_was_silent(void **state)
{
    (void)state;

    relock_async_conn_open(&conn);
    relock_async_conn_close(&conn);
    assert_true(conn.silent_ms == RELOCK_NEVER);
}

#define CONN_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONN_TEST(a_server_that_cannot_be_reached_is_silent_since_the_attempt),
        CONN_TEST(a_closed_connection_forgets_that_the_server_was_silent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
