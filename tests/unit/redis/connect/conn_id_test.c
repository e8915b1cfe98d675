/* The connections that a client may kill. */
#include "redis/connect/conn_id.h"
#include "redis/server/server.h"

#include "redis/server/command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static struct relock_conn_id *conn_id_in(const char *run, const char *address)
{
    struct relock_conn_id *conn_id =
        relock_conn_id_new(&(struct relock_server){0}, run, 7, address, strlen(address));

    assert_non_null(conn_id);
    return conn_id;
}

static void only_a_connection_that_cannot_be_a_strangers_is_killed(void **state)
{
    static const char kills[] = "*6\r\n$6\r\nCLIENT\r\n$4\r\nKILL", pings[] = "*1\r\n$4\r\nPING";
    static const struct {
        const char *run, *killers_run, *address, *sent;
    } cases[] = {
        {"a", "a", "/redis.sock:0", kills},
        {"a", "b", "/redis.sock:0", pings},
        {"a", "a", "127.0.0.1:1", kills},
        {"a", "b", "127.0.0.1:1", pings},
        {"", "b", "127.0.0.1:1", kills},
        {"a", "", "[::1]:10", kills},
        {"", "", "/redis.sock:0", pings},
        {"a", "", "redis.sock:0", pings},
        {"a", NULL, "127.0.0.1:1", kills},
        {"a", NULL, "/redis.sock:0", pings},
        {"a", NULL, "?", pings},
    };

    (void)state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        struct relock_conn_id *conn_id = conn_id_in(cases[i].run, cases[i].address);
        struct relock_conn_id *killer =
            cases[i].killers_run ? conn_id_in(cases[i].killers_run, cases[i].address) : NULL;
        struct relock_buffer buffer = {0};

        relock_conn_id_kill(conn_id, killer, &buffer);
        assert_memory_equal(buffer.data, cases[i].sent, strlen(cases[i].sent));
        relock_buffer_deinit(&buffer);
        relock_conn_id_unref(conn_id);
        relock_conn_id_unref(killer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_connection_that_cannot_be_a_strangers_is_killed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
