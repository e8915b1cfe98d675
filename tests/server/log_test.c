/* Where the log goes, and how much of it. */
#include "support/child.h"
#include "support/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Brings about an error, in a client with these options. */
static void provoke(struct fixture *f, const struct relock_options *options)
{
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, options), "orders");

    probe_int(f->probe, "SET orders text");
    assert_result(relock_trylock(lock), RELOCK_E_SERVER);
    probe_int(f->probe, "DEL orders");
}

static void a_refusal_is_logged_with_the_text_of_redis(void **state)
{
    struct fixture *f = *state;

    provoke(f, NULL);
    assert_true(log_wait(f->log, "WRONGTYPE", SOON_MS));
    assert_true(log_wait(f->log, "orders", SOON_MS));
}

static void a_line_has_no_newline(void **state)
{
    struct fixture *f = *state;

    provoke(f, NULL);
    assert_true(log_wait(f->log, "", SOON_MS));
    assert_int_equal(log_count(f->log, "\n"), 0);
}

static void what_is_less_grave_than_the_level_is_left_out(void **state)
{
    static const int levels[] = {RELOCK_LOG_ERROR, RELOCK_LOG_WARNING, RELOCK_LOG_INFO,
                                 RELOCK_LOG_DEBUG};
    struct fixture *f = *state;

    for (size_t i = 0; i < 4; i++) {
        size_t n;

        log_clear(f->log);
        provoke(f, &(struct relock_options){.log_level = levels[i]});
        n = log_count(f->log, ""); /* one more may come just now */
        assert_true(n <= log_count_grave(f->log, levels[i]));
    }
}

static void an_unknown_level_is_invalid(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = fixture_options(f, &(struct relock_options){.log_level = 99});
    struct relock_client *client;

    assert_result(relock_client_new(&options, &client), RELOCK_E_INVALID);
}

/* Its stderr goes to a file in the server's folder. */
static int complain_to_stderr(struct child *parent, void *arg)
{
    struct fixture *f = arg;
    struct relock_options options = {.url = f->server->unix_url,
                                     .log_level = RELOCK_LOG_DEBUG,
                                     .connect_timeout_ms = slow_ms(SOON_MS),
                                     .command_timeout_ms = slow_ms(SOON_MS)};
    struct relock_client *client;
    struct relock_lock *lock;
    char path[128];

    (void)parent;
    snprintf(path, sizeof(path), "%s/stderr", f->server->dir);
    if (!freopen(path, "w", stderr))
        return EXIT_FAILURE;
    child_must(relock_client_new(&options, &client) == RELOCK_OK);
    child_must(relock_lock_new(client, "orders", &lock) == RELOCK_OK);
    child_must(relock_trylock(lock) == RELOCK_E_SERVER);
    relock_lock_free(lock);
    relock_client_free(client);
    return EXIT_SUCCESS;
}

static void without_a_sink_errors_go_to_stderr_and_details_nowhere(void **state)
{
    struct fixture *f = *state;
    char path[128], text[4096];
    FILE *file;
    size_t n;

    probe_int(f->probe, "SET orders text");
    assert_int_equal(child_wait(child_start(complain_to_stderr, f), SOON_MS), EXIT_SUCCESS);
    probe_int(f->probe, "DEL orders");

    snprintf(path, sizeof(path), "%s/stderr", f->server->dir);
    file = fopen(path, "r");
    assert_non_null(file);
    n = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    text[n] = '\0';
    assert_non_null(strstr(text, "WRONGTYPE"));
    assert_non_null(strstr(text, "orders"));
    assert_int_equal(text[n - 1], '\n');
    assert_null(strstr(text, "debug"));
    assert_null(strstr(text, "info"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_refusal_is_logged_with_the_text_of_redis),
        SERVER_TEST(a_line_has_no_newline),
        SERVER_TEST(what_is_less_grave_than_the_level_is_left_out),
        SERVER_TEST(an_unknown_level_is_invalid),
        SERVER_TEST(without_a_sink_errors_go_to_stderr_and_details_nowhere),
    };

    return SERVER_TESTS_RUN(tests);
}
