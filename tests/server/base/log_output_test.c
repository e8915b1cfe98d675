/* Where the log goes, and how much of it. */
#include "support/child.h"
#include "support/fixture.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Causes an error in a client with these options. */
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

static void lines_below_the_level_are_left_out(void **state)
{
    static const int levels[] = {RELOCK_LOG_ERROR, RELOCK_LOG_WARNING, RELOCK_LOG_INFO,
                                 RELOCK_LOG_DEBUG};
    struct fixture *f = *state;

    for (size_t i = 0; i < 4; i++) {
        size_t n;

        log_clear(f->log);
        provoke(f, &(struct relock_options){.log_level = levels[i]});
        n = log_count(f->log, ""); /* one more may be arriving */
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

/* ---- fields -------------------------------------------------------------------------------- */

/* The first record of each sort; set by the thread of the log, read when `n` says so. */
struct seen_record {
    char lock[32], text[256];
    uint64_t owner;
    int result, level;
    atomic_int n;
};

static struct {
    struct seen_record about_none, failed, lost;
} seen;

static void keep_in(struct seen_record *kept, const struct relock_record *record)
{
    if (atomic_load(&kept->n) == 0) {
        (void)snprintf(kept->lock, sizeof(kept->lock), "%s", record->lock ? record->lock : "");
        (void)snprintf(kept->text, sizeof(kept->text), "%s", record->text);
        kept->owner = record->owner;
        kept->result = record->result;
        kept->level = record->level;
    }
    atomic_fetch_add(&kept->n, 1);
}

static void keep_record(const struct relock_record *record, void *arg)
{
    if (arg != &seen)
        return;
    if (!record->lock)
        keep_in(&seen.about_none, record);
    else
        keep_in(record->result == RELOCK_LOST ? &seen.lost : &seen.failed, record);
}

static bool is_seen(void *arg)
{
    const struct seen_record *kept = arg;

    return atomic_load(&kept->n) > 0;
}

static void a_record_has_the_lock_the_owner_and_the_result(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = {.name_prefix = "shop:",
                                     .watchdog_timeout_ms = slow_ms(1500),
                                     .on_log = log_drop, /* not called */
                                     .on_record = keep_record,
                                     .arg = &seen};
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, &options), "orders");

    assert_true(wait_until(is_seen, &seen.about_none, SOON_MS));
    assert_int_equal(seen.about_none.owner, 0);
    assert_int_equal(seen.about_none.level, RELOCK_LOG_INFO);

    probe_int(f->probe, "SET shop:orders text");
    assert_result(relock_trylock(lock), RELOCK_E_SERVER);
    probe_int(f->probe, "DEL shop:orders");
    assert_true(wait_until(is_seen, &seen.failed, SOON_MS));
    assert_string_equal(seen.failed.lock, "orders");
    assert_true(seen.failed.owner == relock_owner_self());
    assert_int_equal(seen.failed.result, RELOCK_E_SERVER);
    assert_int_equal(seen.failed.level, RELOCK_LOG_WARNING);
    assert_non_null(strstr(seen.failed.text, "shop:orders: owner "));

    assert_result(relock_lock(lock), RELOCK_OK);
    probe_int(f->probe, "DEL shop:orders");
    assert_true(wait_until(is_seen, &seen.lost, SOON_MS));
    assert_string_equal(seen.lost.lock, "orders");
    assert_true(seen.lost.owner == relock_owner_self());
    assert_result(relock_unlock(lock), RELOCK_LOST);
}

/* ---- repetitions --------------------------------------------------------------------------- */

#define AT_ONCE 5

/* The most lines of one cause, from a client that started then and was freed: some at once, one
 * every ten seconds, one at the end. */
static void are_few(struct fixture *f, const char *words, uint64_t began_ms)
{
    assert_true(log_count(f->log, words) <= AT_ONCE + 1 + (now_ms() - began_ms) / 10000);
}

static void a_thousand_releases_without_the_right_to_publish_are_a_few_lines(void **state)
{
    struct fixture *f = *state;
    uint64_t began_ms = now_ms();
    struct relock_client *client;
    struct relock_lock *lock;

    probe_int(f->probe, "ACL SETUSER locker reset on resetchannels >secret ~* +@all");
    client = fixture_client(f, &(struct relock_options){.user = "locker", .password = "secret"});
    lock = fixture_lock(f, client, "orders");
    for (int i = 0; i < 1000; i++) {
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_result(relock_unlock(lock), RELOCK_OK);
    }
    fixture_free_client(f, client);
    are_few(f, "the server refused PUBLISH", began_ms);
    assert_int_equal(log_sum(f->log, "the server refused PUBLISH", " ... and "), 1000);
}

static void the_loss_of_all_holds_is_a_few_lines_and_every_holder_is_notified(void **state)
{
    struct fixture *f = *state;
    uint64_t began_ms = now_ms();
    struct relock_client *client = watchful_client(f, 1500);

    for (int i = 0; i < FIXTURE_MAX_LOCKS; i++) {
        char name[32];

        snprintf(name, sizeof(name), "orders:%d", i);
        assert_result(relock_lock(fixture_lock(f, client, name)), RELOCK_OK);
    }
    probe_int(f->probe, "FLUSHALL");
    assert_true(wait_for_lost(client, FIXTURE_MAX_LOCKS));
    assert_true(losses_wait(f->losses, FIXTURE_MAX_LOCKS, SOON_MS));
    for (int i = 0; i < FIXTURE_MAX_LOCKS; i++)
        assert_result(relock_unlock(f->locks[i]), RELOCK_LOST);
    fixture_free_client(f, client);
    are_few(f, "lost the lock: Redis no longer has it", began_ms);
    assert_int_equal(log_sum(f->log, "lost the lock", " ... and "), FIXTURE_MAX_LOCKS);
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
        SERVER_TEST(lines_below_the_level_are_left_out),
        SERVER_TEST(an_unknown_level_is_invalid),
        SERVER_TEST(a_record_has_the_lock_the_owner_and_the_result),
        SERVER_TEST(a_thousand_releases_without_the_right_to_publish_are_a_few_lines),
        SERVER_TEST(the_loss_of_all_holds_is_a_few_lines_and_every_holder_is_notified),
        SERVER_TEST(without_a_sink_errors_go_to_stderr_and_details_nowhere),
    };

    return SERVER_TESTS_RUN(tests);
}
