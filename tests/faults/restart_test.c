/*
 * A connection that did not answer is killed by its id and address. After a restart the server
 * counts ids from 1 again, and over a unix socket all connections have one address. So our old id
 * may now belong to a stranger, which must not be killed.
 */
#include "faults.h"

#include <stdlib.h>
#include <string.h>

#define N_STRANGERS 64
#define N_BEFORE 16 /* earlier connections, with lower ids */

struct strangers {
    size_t n;
    struct probe *probes[N_STRANGERS];
    long long ids[N_STRANGERS];
};

static void let_some_come_and_go(struct faults *t)
{
    for (int i = 0; i < N_BEFORE; i++) {
        struct probe *probe = probe_open(t->f->server->socket);

        assert_true(probe_int(probe, "CLIENT ID") > 0);
        probe_close(probe);
    }
}

/* The id of the connection that the client under test used last. */
static long long id_of_ours(struct faults *t)
{
    const char *line = probe_text(t->f->probe, "CLIENT LIST");

    for (; line; line = strchr(line, '\n')) {
        const char *command = strstr(line, " cmd=");

        line += *line == '\n';
        if (command && strncmp(command, " cmd=evalsha ", strlen(" cmd=evalsha ")) == 0 &&
            strcspn(line, "\n") > (size_t)(command - line))
            return strtoll(line + strlen("id="), NULL, 10);
    }
    return 0;
}

/* Connects strangers until one of them has this id. */
static void come_up_to(struct faults *t, struct strangers *strangers, long long id)
{
    bool has_come = false;

    while (!has_come) {
        struct probe *probe = probe_open(t->f->server->socket);
        long long new = probe_int(probe, "CLIENT ID");

        assert_true(new > 0 && new <= id && strangers->n < N_STRANGERS);
        strangers->probes[strangers->n] = probe;
        strangers->ids[strangers->n++] = new;
        has_come = new == id;
    }
}

static void are_all_still_there(struct strangers *strangers)
{
    while (strangers->n-- > 0) {
        assert_int_equal(probe_int(strangers->probes[strangers->n], "CLIENT ID"),
                         strangers->ids[strangers->n]);
        probe_close(strangers->probes[strangers->n]);
    }
}

/* Kills the server while a command of the client is in flight. Returns the id of that
 * connection. The proxy refuses connections until the strangers have connected. */
static long long is_interrupted(struct faults *t, struct relock_lock *lock, struct actor *owner)
{
    struct proxy_rule *late;
    long long id;

    assert_result(actor_lock(owner, lock), RELOCK_OK);
    assert_result(actor_unlock(owner, lock), RELOCK_OK);
    id = id_of_ours(t);
    assert_true(id > N_BEFORE);
    late = proxy_next(t->proxy, PROXY_HOLD, "lock 1 orders");
    actor_begin_lock(owner, lock);
    assert_true(proxy_met(late, 1));
    proxy_refuse(t->proxy, true);
    server_kill(t->f->server);
    return id;
}

static void a_repeated_acquire_kills_no_other_connection(void **state)
{
    struct faults *t = *state;
    struct relock_options options = {.command_timeout_ms = 3 * slow_ms(SOON_MS)};
    struct strangers strangers = {0};
    struct relock_lock *lock;
    struct actor *owner = actor_start();
    long long id;

    let_some_come_and_go(t);
    lock = fixture_lock(t->f, faults_client(t, &options), "orders");
    id = is_interrupted(t, lock, owner);
    server_restart(t->f->server);
    come_up_to(t, &strangers, id);
    proxy_refuse(t->proxy, false);

    assert_result(actor_result_within(owner, 3 * SOON_MS), RELOCK_OK);
    assert_result(actor_unlock(owner, lock), RELOCK_OK);
    are_all_still_there(&strangers);
}

static void a_settled_acquire_kills_no_other_connection(void **state)
{
    struct faults *t = *state;
    struct relock_options options = {.command_timeout_ms = short_ms()};
    struct strangers strangers = {0};
    struct proxy_rule *settled;
    struct relock_lock *lock;
    struct actor *owner = actor_start();
    long long id;

    let_some_come_and_go(t);
    lock = fixture_lock(t->f, faults_client(t, &options), "orders");
    id = is_interrupted(t, lock, owner);
    assert_result(actor_result(owner), RELOCK_E_CONN);
    server_restart(t->f->server);
    come_up_to(t, &strangers, id);
    settled = proxy_next(t->proxy, PROXY_PASS, "unlock 1 orders");
    proxy_refuse(t->proxy, false);

    assert_int_equal(proxy_fate(settled), PROXY_ANSWERED);
    are_all_still_there(&strangers);
}

/* A client that may not read the run id cannot distinguish our connection from a stranger's. */
static void without_the_run_id_no_connection_is_killed_by_a_shared_address(void **state)
{
    struct faults *t = *state;
    struct relock_options options = {.user = WORKER, .password = PASSWORD};
    struct relock_lock *lock;

    faults_worker(t, "~* &* +@all -info");
    lock = fixture_lock(t->f, faults_client(t, &options), "orders");
    (void)proxy_next(t->proxy, PROXY_CUT_UNANSWERED, "lock 1 orders");
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_int_equal(proxy_count(t->proxy, "lock 1 orders"), 2);
    assert_int_equal(proxy_count(t->proxy, "CLIENT KILL"), 0);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(a_repeated_acquire_kills_no_other_connection),
        FAULT_TEST(a_settled_acquire_kills_no_other_connection),
        FAULT_TEST(without_the_run_id_no_connection_is_killed_by_a_shared_address),
    };

    return FAULT_TESTS_RUN(tests);
}
