/* The life of connections with TLS: locks over them, their end, the next one, and other protocols
 * on the same port. */
#include "support/actor.h"
#include "support/certs.h"
#include "support/child.h"
#include "support/fork_lock.h"
#include "support/kinds.h"
#include "support/numbers.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define RENEWED_MS 3000 /* a lease within which a machine may stand still for two seconds */
#define HANGS_MS 300
#define CONNECT_MS 1000 /* enough to begin a handshake on a slow machine */
#define EXTENDED_MS 60000

/* ---- locks --------------------------------------------------------------------------------- */

static void a_lock_is_held_renewed_and_waited_for(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, RENEWED_MS);
    struct relock_client *other = fixture_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_lock *theirs = kind_lock(f, other, "orders");
    struct actor *actor = actor_start();

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_trylock(theirs), RELOCK_BUSY);
    actor_begin_lock(actor, theirs);
    assert_true(wait_for_waiters(other, 1));
    assert_true(wait_for_renewals(client, 0, 3));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_gets_in(actor, theirs);
    assert_int_equal(stats_of(client).lost + stats_of(other).lost, 0);
    assert_int_equal(stats_of(client).reconnects + stats_of(other).reconnects, 0);
}

static void a_latch_and_permits_are_waited_for(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL), *other = fixture_client(f, NULL);
    struct latch_wait latch = {latch_of(client, "start"), RELOCK_FOREVER, NULL};
    struct permits_wait permits = {semaphore_of(client, "jobs"), 2, RELOCK_FOREVER, NULL};
    struct actor *starting = actor_start(), *working = actor_start();

    assert_result(relock_latch_try_set(latch.latch, 1, NULL), RELOCK_OK);
    actor_begin(starting, latch_step, &latch);
    actor_begin(working, permits_step, &permits);
    assert_true(wait_for_waiters(client, 2));
    assert_result(relock_latch_count_down(latch_of(other, "start")), RELOCK_OK);
    assert_result(relock_unleased_release(semaphore_of(other, "jobs"), 2), RELOCK_OK);
    assert_result(actor_result(starting), RELOCK_OK);
    assert_result(actor_result(working), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "DEL jobs"), 1);
}

/* ---- the end of a connection, and the next ------------------------------------------------- */

static void a_new_connection_resumes_the_session(void **state)
{
    static const char *const versions[] = {"TLSv1.2", "TLSv1.3"};
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(versions) / sizeof(*versions); i++) {
        struct relock_client *client;
        struct relock_lock *lock;

        assert_int_equal(probe_int(f->probe, "CONFIG SET tls-protocols %s", versions[i]), 0);
        client = fixture_client(f, NULL);
        lock = fixture_lock(f, client, "orders");
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_true(wait_for_login(f->probe));
        log_clear(f->log);
        probe_int(f->probe, "CLIENT KILL TYPE normal");
        assert_result(relock_unlock(lock), RELOCK_OK);
        assert_true(log_wait(f->log, "session resumed", SOON_MS));
        assert_true(log_count(f->log, versions[i]) > 0);
        fixture_free_lock(f, lock);
        fixture_free_client(f, client);
    }
    assert_int_equal(probe_int(f->probe, "CONFIG SET tls-protocols %s", "TLSv1.2 TLSv1.3"), 0);
}

static bool is_renewed(void *arg)
{
    return relock_extend(arg, 0, EXTENDED_MS) == RELOCK_OK;
}

static void a_certificate_that_goes_bad_ends_no_hold_if_it_is_replaced_in_time(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "CONFIG SET tls-cert-file tls/" CERTS_EXPIRED), 0);
    probe_int(f->probe, "CLIENT KILL TYPE normal");
    assert_true(log_wait(f->log, "has expired; reconnecting", SOON_MS));
    assert_result(relock_extend(lock, 0, EXTENDED_MS), RELOCK_E_AUTH);
    assert_int_equal(probe_int(f->probe, "CONFIG SET tls-cert-file tls/" CERTS_SERVER), 0);
    assert_true(wait_until(is_renewed, lock, SOON_MS));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(losses_count(f->losses), 0);
}

static void a_call_returns_in_time_when_the_server_hangs(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    uint64_t began_ms;

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    server_pause(f->server);
    began_ms = now_ms();
    assert_result(relock_timedlock(lock, HANGS_MS), RELOCK_E_CONN);
    assert_took(began_ms, HANGS_MS, SOON_MS);
    server_resume(f->server);
}

/* ---- fork ---------------------------------------------------------------------------------- */

static int free_and_lock(struct child *parent, void *arg)
{
    struct fixture *f = arg;
    struct relock_client *client;
    struct relock_lock *lock;

    (void)parent;
    child_must(relock_client_free(f->clients[0]) == NULL);
    if (!child_can_have_threads() || !child_can_leave_busy_threads())
        return EXIT_SUCCESS;
    client = child_client(f, &(struct relock_options){.on_log = log_drop, .arg = f});
    child_must(relock_lock_new(client, "child", &lock) == RELOCK_OK);
    child_must(relock_lock(lock) == RELOCK_OK);
    child_must(relock_unlock(lock) == RELOCK_OK);
    relock_lock_free(lock);
    relock_client_free(client);
    return EXIT_SUCCESS;
}

/* The server must not take what the child does for the end of its parent's connections. */
static void a_forked_child_leaves_the_connections_of_its_parent_alone(void **state)
{
    struct fixture *f = *state;
    int64_t n_before = child_descriptors(NULL);
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_int_equal(child_descriptors(client), n_before);
    assert_int_equal(child_wait(child_start(free_and_lock, f), SOON_MS), EXIT_SUCCESS);
    assert_result(relock_extend(lock, 0, EXTENDED_MS), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(stats_of(client).reconnects, 0);
}

static void lock_and_unlock(void *arg)
{
    for (int i = 0; i < 10; i++)
        if (relock_lock(arg) != RELOCK_OK || relock_unlock(arg) != RELOCK_OK)
            abort();
}

static void a_fork_waits_for_a_thread_that_calls_with_a_lock_of_the_program(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");

    assert_true(fork_lock_outlasts(lock_and_unlock, lock));
}

/* ---- other protocols ----------------------------------------------------------------------- */

struct stranger {
    int fd;
    const char *says;
    char url[64];
    pthread_t thread;
};

static void *answer(void *arg)
{
    struct stranger *stranger = arg;
    int fd = accept(stranger->fd, NULL, NULL);
    char byte;

    if (send(fd, stranger->says, strlen(stranger->says), MSG_NOSIGNAL) > 0)
        while (recv(fd, &byte, 1, 0) > 0)
            continue;
    close(fd);
    return NULL;
}

/* A server that is none: it says that, or nothing at all. */
static void start_stranger(struct stranger *stranger, const char *says)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof(address);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    stranger->says = says;
    stranger->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(stranger->fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(stranger->fd, 8), 0);
    assert_int_equal(getsockname(stranger->fd, (struct sockaddr *)&address, &size), 0);
    snprintf(stranger->url, sizeof(stranger->url), "rediss://127.0.0.1:%d",
             ntohs(address.sin_port));
    if (says)
        assert_int_equal(pthread_create(&stranger->thread, NULL, answer, stranger), 0);
}

static void stop_stranger(struct stranger *stranger)
{
    if (stranger->says)
        pthread_join(stranger->thread, NULL);
    close(stranger->fd);
}

static void cannot_connect(struct fixture *f, const char *url, uint64_t timeout_ms, const char *why)
{
    struct relock_options options =
        fixture_options(f, &(struct relock_options){.url = url, .connect_timeout_ms = timeout_ms});
    struct relock_client *client;

    assert_result(relock_client_new(&options, &client), RELOCK_E_CONN);
    if (log_count(f->log, why) == 0)
        log_print(f->log);
    assert_int_equal(log_count(f->log, why), 1);
    assert_int_equal(log_count_grave(f->log, RELOCK_LOG_ERROR), 1);
    log_clear(f->log);
}

static void a_handshake_without_an_answer_ends_in_time(void **state)
{
    struct fixture *f = *state;
    struct stranger stranger;
    uint64_t began_ms = now_ms();

    start_stranger(&stranger, NULL);
    cannot_connect(f, stranger.url, slow_ms(CONNECT_MS), "no answer to the TLS handshake");
    assert_took(began_ms, CONNECT_MS, SOON_MS);
    stop_stranger(&stranger);
}

/* The call ends before the attempt to connect, whose cause it reports. */
static void a_call_without_a_handshake_says_what_it_waited_for(void **state)
{
    struct fixture *f = *state;
    struct stranger stranger;
    struct relock_client *client;
    struct relock_lock *lock;
    char cause[128];

    start_stranger(&stranger, NULL);
    client = fixture_client(f, &(struct relock_options){.url = stranger.url,
                                                        .connect_timeout_ms = slow_ms(CONNECT_MS),
                                                        .flags = RELOCK_LAZY});
    lock = fixture_lock(f, client, "orders");
    log_clear(f->log);
    assert_result(relock_timedlock(lock, HANGS_MS), RELOCK_E_CONN);
    snprintf(cause, sizeof(cause), "in time: %s: no answer to the TLS handshake",
             stranger.url + strlen("rediss://"));
    assert_true(log_wait(f->log, cause, SOON_MS));
    stop_stranger(&stranger);
}

static void bytes_that_are_not_tls_are_recognised(void **state)
{
    static const char *const lines[] = {"-ERR unknown command\r\n", "HTTP/1.1 400 Bad Request\r\n",
                                        "x"};
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
        struct stranger stranger;

        start_stranger(&stranger, lines[i]);
        cannot_connect(f, stranger.url, 0, "does not speak TLS on this port");
        stop_stranger(&stranger);
    }
}

/* A server without TLS waits for the end of the line. */
static void tls_to_a_port_without_it_and_the_reverse_are_explained(void **state)
{
    struct fixture *f = *state;
    char url[64];

    snprintf(url, sizeof(url), "rediss://127.0.0.1:%d", f->server->port);
    cannot_connect(f, url, slow_ms(CONNECT_MS), "TLS");
    snprintf(url, sizeof(url), "redis://127.0.0.1:%d", f->server->tls_port);
    cannot_connect(f, url, 0, "use rediss://");
}

static int start(void **state)
{
    return fixture_start_with(state, &(struct server_options){.tcp = true, .tls = true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KINDS_TEST(a_lock_is_held_renewed_and_waited_for),
        SEMAPHORE_TEST(a_lock_is_held_renewed_and_waited_for),
        NUMBER_TEST(a_latch_and_permits_are_waited_for),
        SERVER_TEST(a_new_connection_resumes_the_session),
        SERVER_TEST(a_certificate_that_goes_bad_ends_no_hold_if_it_is_replaced_in_time),
        SERVER_TEST(a_call_returns_in_time_when_the_server_hangs),
        SERVER_TEST(a_forked_child_leaves_the_connections_of_its_parent_alone),
        SERVER_TEST(a_fork_waits_for_a_thread_that_calls_with_a_lock_of_the_program),
        SERVER_TEST(a_handshake_without_an_answer_ends_in_time),
        SERVER_TEST(a_call_without_a_handshake_says_what_it_waited_for),
        SERVER_TEST(bytes_that_are_not_tls_are_recognised),
        SERVER_TEST(tls_to_a_port_without_it_and_the_reverse_are_explained),
    };

    fork_lock_register();
    return cmocka_run_group_tests(tests, start, fixture_stop);
}
