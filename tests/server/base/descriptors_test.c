/* A program without descriptors 0, 1 and 2, as a daemon or a child of a shell's 2>&-. */
#include "support/child.h"
#include "support/fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define N_STANDARD 3

struct situation {
    struct fixture *f;
    const char *url;
};

static bool are_standard_ones_closed(void *arg)
{
    (void)arg;
    for (int fd = 0; fd < N_STANDARD; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            return false;
    return true;
}

/* Exits with the line that failed: there is no stderr for child_must(). */
#define must(condition)           \
    do {                          \
        if (!(condition))         \
            exit(__LINE__ % 256); \
    } while (0)

/* The system's resolver opens files for a moment. */
static void use(struct relock_lock *lock)
{
    must(relock_lock(lock) == RELOCK_OK);
    must(relock_unlock(lock) == RELOCK_OK);
    must(wait_until(are_standard_ones_closed, NULL, SOON_MS));
}

/* Its log goes to stderr, which is closed. */
static int live_without_them(struct child *parent, void *arg)
{
    const struct situation *situation = arg;
    struct relock_options options = fixture_options(
        situation->f, &(struct relock_options){.url = situation->url, .arg = &options});
    struct relock_client *client;
    struct relock_events *events;
    struct relock_lock *lock;

    for (int fd = 0; fd < N_STANDARD; fd++)
        (void)close(fd);
    must(relock_client_new(&options, &client) == RELOCK_OK);
    must(relock_lock_new(client, "orders", &lock) == RELOCK_OK);
    must(relock_events_new(client, &events) == RELOCK_OK);
    use(lock);
    must(relock_timedlock(lock, 0) == RELOCK_OK);
    must(child_send(parent, 1) && child_await(parent)); /* its connections are killed */
    must(relock_unlock(lock) == RELOCK_OK);
    must(wait_for_reconnects(client, 2)); /* for calls and for renewals */
    use(lock);
    must(relock_events_free(events) == NULL);
    must(relock_lock_free(lock) == NULL);
    must(relock_client_free(client) == NULL);
    return EXIT_SUCCESS;
}

static void assert_lives_without_them(struct fixture *f, const char *url)
{
    struct situation situation = {f, url};
    struct child *child = child_start(live_without_them, &situation);

    if (!child_await(child))
        fail_msg("the child ended: see line %d", child_wait(child, SOON_MS));
    assert_true(wait_for_login(f->probe));
    assert_true(probe_int(f->probe, "CLIENT KILL TYPE normal SKIPME yes") >= 2);
    assert_true(child_send(child, 1));
    assert_int_equal(child_wait(child, SOON_MS), EXIT_SUCCESS);
}

static void no_descriptor_of_the_library_is_a_standard_one_over_a_unix_socket(void **state)
{
    struct fixture *f = *state;

    assert_lives_without_them(f, f->server->unix_url);
}

static void no_descriptor_of_the_library_is_a_standard_one_over_a_network(void **state)
{
    struct fixture *f = *state;
    char url[64];

    assert_lives_without_them(f, f->server->tcp_url);
    (void)snprintf(url, sizeof(url), "redis://localhost:%d", f->server->port);
    assert_lives_without_them(f, url);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(no_descriptor_of_the_library_is_a_standard_one_over_a_unix_socket),
        SERVER_TEST(no_descriptor_of_the_library_is_a_standard_one_over_a_network),
    };

    return cmocka_run_group_tests(tests, fixture_start_tcp, fixture_stop);
}
