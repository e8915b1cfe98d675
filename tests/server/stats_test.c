/* The counters of relock_client_stats() and relock_stats_print(), but those of waiting. */
#include "support/actor.h"
#include "support/kinds.h"
#include "support/multi.h"
#include "support/peer.h"

#include <stdio.h>
#include <string.h>

#define LEASE_MS 1500
#define HELD_MS 50
#define PAGE_MAX 65536

/* ---- numbers ------------------------------------------------------------------------------- */

static uint64_t acquires(struct relock_client *client, int result)
{
    return stats_of(client).acquires[-result];
}

static void calls_are_counted_by_their_result(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_how how = {.wait_ms = RELOCK_FOREVER, .permits = kind_now()->permits};

    assert_result(relock_cancel_new(&how.cancel), RELOCK_OK);
    relock_cancel_fire(how.cancel);
    assert_true(kind_peer_lock(f, "orders"));
    assert_result(relock_trylock(lock), RELOCK_BUSY);
    assert_result(fixture_timedlock(lock, HELD_MS), RELOCK_TIMEOUT);
    assert_result(relock_acquire(lock, &how, NULL), RELOCK_CANCELLED);
    assert_true(kind_peer_unlock(f, "orders"));
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK); /* a further level */
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);

    assert_int_equal(acquires(client, RELOCK_BUSY), 1);
    assert_int_equal(acquires(client, RELOCK_TIMEOUT), 1);
    assert_int_equal(acquires(client, RELOCK_CANCELLED), 1);
    assert_int_equal(acquires(client, RELOCK_OK), 2);
    assert_int_equal(stats_of(client).releases[-RELOCK_OK], 2);
    assert_int_equal(stats_of(client).releases[-RELOCK_NOT_OWNER], 1);
    relock_cancel_free(how.cancel);
}

static void a_failure_is_counted(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    probe_int(f->probe, "SET orders text");
    assert_result(relock_trylock(lock), RELOCK_E_SERVER);
    assert_int_equal(acquires(client, RELOCK_E_SERVER), 1);
    assert_int_equal(acquires(client, RELOCK_OK), 0);
    probe_int(f->probe, "DEL orders");
}

static void a_multi_lock_counts_as_one_call(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *a = fixture_lock(f, client, "a"), *b = fixture_lock(f, client, "b");
    struct relock_lock *both = fixture_multi(f, a, b, NULL);
    struct relock_stats stats;

    assert_result(relock_lock(both), RELOCK_OK);
    assert_result(relock_unlock(both), RELOCK_OK);
    stats = stats_of(client);
    assert_int_equal(stats.acquires[-RELOCK_OK], 1);
    assert_int_equal(stats.releases[-RELOCK_OK], 1);
    assert_int_equal(stats.wait.count, 1);
    assert_int_equal(stats.hold.count, 1);
    assert_int_equal(stats.round_trip.count, 4);
}

/* ---- durations ----------------------------------------------------------------------------- */

static void the_time_of_a_hold_and_of_a_wait_is_known(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct actor *waiting = actor_start();
    struct relock_stats stats;

    assert_result(relock_lock(lock), RELOCK_OK);
    stats = stats_of(client);
    assert_int_equal(stats.wait.count, 1);
    assert_int_equal(stats.hold.count, 0);
    assert_int_equal(stats.round_trip.count, 1);
    assert_true(stats.round_trip.sum_us > 0);
    assert_true(stats.wait.sum_us >= stats.round_trip.sum_us);

    actor_begin_lock(waiting, lock);
    assert_true(wait_for_waiters(client, 1));
    let_pass(HELD_MS);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_gets_in(waiting, lock);
    stats = stats_of(client);
    assert_int_equal(stats.wait.count, 2);
    assert_true(stats.wait.sum_us >= (HELD_MS - TWO_CLOCKS_MS) * 1000);
    assert_int_equal(stats.hold.count, 2);
    assert_true(stats.hold.sum_us >= (HELD_MS - TWO_CLOCKS_MS) * 1000);
}

/* The next owner's time does not begin with the first one's. */
static void a_handed_off_hold_begins_anew(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.handoff_ms = NEVER_MS});
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct actor *waiting = actor_start();
    struct relock_stats before, stats;
    uint64_t began_ms, held_us;

    assert_result(relock_lock(lock), RELOCK_OK);
    actor_begin_lock(waiting, lock);
    assert_true(wait_for_waiters(client, 1));
    let_pass(10 * HELD_MS);
    began_ms = now_ms();
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(actor_result(waiting), RELOCK_OK);
    before = stats_of(client);
    assert_int_equal(before.passed_on, 1);
    assert_int_equal(before.hold.count, 1);
    assert_true(before.oldest_hold_us <= (now_ms() - began_ms + TWO_CLOCKS_MS) * 1000);
    assert_result(actor_unlock(waiting, lock), RELOCK_OK);
    stats = stats_of(client);
    assert_int_equal(stats.hold.count, 2);
    held_us = stats.hold.sum_us - before.hold.sum_us;
    assert_true(held_us <= (now_ms() - began_ms + TWO_CLOCKS_MS) * 1000);
}

static void the_margin_of_renewals_is_known(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, LEASE_MS);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_stats stats;

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(wait_for_renewals(client, 0, 2));
    stats = stats_of(client);
    assert_int_equal(stats.margin.count, stats.renewed);
    assert_in_range(stats.margin.sum_us / stats.margin.count, 1, slow_ms(LEASE_MS) * 1000);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* ---- state --------------------------------------------------------------------------------- */

static bool is_connected(void *client)
{
    return stats_of(client).connected == 1;
}

static bool is_cut_off(void *client)
{
    return stats_of(client).connected == 0;
}

static void a_client_knows_whether_it_is_connected(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);

    assert_true(wait_until(is_connected, client, SOON_MS));
    server_kill(f->server);
    assert_true(wait_until(is_cut_off, client, SOON_MS));
    server_restart(f->server);
    assert_true(wait_until(is_connected, client, SOON_MS));
}

static void the_most_contended_names_come_first(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *often = fixture_lock(f, client, "often");
    struct relock_lock *once = fixture_lock(f, client, "once");
    struct relock_stats stats;

    assert_true(peer_lock(f->probe, "often", PEER, PEER_LEASE_MS));
    assert_true(peer_lock(f->probe, "once", PEER, PEER_LEASE_MS));
    assert_result(relock_trylock(once), RELOCK_BUSY);
    for (int i = 0; i < 3; i++)
        assert_result(relock_trylock(often), RELOCK_BUSY);
    stats = stats_of(client);
    assert_string_equal(stats.contended_names[0].name, "often");
    assert_int_equal(stats.contended_names[0].n, 3);
    assert_string_equal(stats.contended_names[1].name, "once");
    assert_int_equal(stats.contended_names[1].n, 1);
    assert_string_equal(stats.contended_names[2].name, "");
    assert_true(peer_unlock(f->probe, "often", PEER));
    assert_true(peer_unlock(f->probe, "once", PEER));
}

static bool has_lost(void *arg)
{
    return stats_of(arg).lost > 0;
}

/* By the time of its present owner. */
static void the_oldest_hold_has_an_age(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *old = fixture_lock(f, client, "old"), *new = fixture_lock(f, client, "new");
    uint64_t before_ms = now_ms(), age_us;

    assert_int_equal(stats_of(client).oldest_hold_us, 0);
    assert_result(relock_lock(old), RELOCK_OK);
    let_pass(20);
    assert_result(relock_lock(new), RELOCK_OK);
    age_us = stats_of(client).oldest_hold_us;
    assert_in_range(age_us, 20000, (now_ms() - before_ms + 1) * 1000);
    assert_result(relock_lock(old), RELOCK_OK);
    assert_true(stats_of(client).oldest_hold_us >= age_us);
    assert_result(relock_unlock(old), RELOCK_OK);
    assert_result(relock_unlock(old), RELOCK_OK);
    assert_true(stats_of(client).oldest_hold_us <= (now_ms() - before_ms - 18) * 1000);
    assert_true(stats_of(client).oldest_hold_us > 0);
    assert_int_equal(probe_int(f->probe, "DEL new"), 1);
    assert_true(wait_until(has_lost, client, SOON_MS));
    assert_int_equal(stats_of(client).oldest_hold_us, 0);
    assert_result(relock_unlock(new), RELOCK_LOST);
}

static bool has_lost_permits(void *arg)
{
    return stats_of(arg).permits_lost > 0;
}

static void permits_are_counted(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *pages = fixture_lock_of(f, client, "pages", relock_semaphore_new);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct actor *waiting = actor_start(), *other = actor_start();

    assert_result(relock_semaphore_init(pages, 5, NULL), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_acquire(pages, &(struct relock_how){.permits = 3}, NULL), RELOCK_OK);
    assert_result(relock_acquire(pages, &(struct relock_how){.permits = 2}, NULL), RELOCK_OK);
    assert_int_equal(stats_of(client).permits, 5);
    actor_begin_lock(waiting, pages);
    actor_begin_lock(other, lock);
    assert_true(wait_for_waiters(client, 2));
    assert_int_equal(stats_of(client).permit_waiters, 1);
    assert_result(relock_unlock(pages), RELOCK_OK);
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_int_equal(stats_of(client).permit_waiters, 0);
    assert_int_equal(stats_of(client).permits, 4);
    assert_result(actor_unlock(waiting, pages), RELOCK_OK);
    assert_int_equal(stats_of(client).permits_lost, 0);
    assert_int_equal(probe_int(f->probe, "DEL pages {pages}:timeout"), 2);
    assert_true(wait_until(has_lost_permits, client, SOON_MS));
    assert_int_equal(stats_of(client).permits_lost, 3);
    assert_int_equal(stats_of(client).permits, 0);
    assert_result(relock_unlock(pages), RELOCK_LOST);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(actor_result(other), RELOCK_OK);
    assert_result(actor_unlock(other, lock), RELOCK_OK);
}

/* ---- text ---------------------------------------------------------------------------------- */

static char page[PAGE_MAX];

static void print(struct relock_client *client, const char *labels)
{
    size_t len = 0;

    assert_result(relock_stats_print(client, labels, page, sizeof(page), &len), RELOCK_OK);
    assert_true(len < sizeof(page));
    assert_int_equal(strlen(page), len);
}

static void assert_has(const char *line)
{
    if (!strstr(page, line))
        fail_msg("no %s in:\n%s", line, page);
}

static void the_text_has_every_counter(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "a\"b\\c\n\xff");
    struct actor *other = actor_start();

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(actor_trylock(other, lock), RELOCK_BUSY);
    print(client, NULL);
    assert_has("# TYPE relock_acquired_total counter\nrelock_acquired_total 1\n");
    assert_has("# TYPE relock_holds gauge\nrelock_holds 1\n");
    assert_has("# TYPE relock_permits gauge\nrelock_permits 0\n");
    assert_has("# TYPE relock_permits_lost_total counter\nrelock_permits_lost_total 0\n");
    assert_has("# TYPE relock_oldest_hold_seconds gauge\nrelock_oldest_hold_seconds ");
    assert_has("\nrelock_acquires_total{result=\"ok\"} 1\n");
    assert_has("\nrelock_acquires_total{result=\"busy\"} 1\n");
    assert_has("\nrelock_acquires_total{result=\"e_conn\"} 0\n");
    assert_has("\nrelock_wait_seconds_bucket{le=\"0.000032\"} ");
    assert_has("\nrelock_wait_seconds_bucket{le=\"4294.967296\"} 1\n");
    assert_has("\nrelock_wait_seconds_bucket{le=\"+Inf\"} 1\n");
    assert_has("\nrelock_wait_seconds_count 1\n");
    assert_has("\nrelock_contended_names_total{name=\"a\\\"b\\\\c\\\\x0a\\\\xff\"} 1\n");
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void each_line_has_the_labels(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);

    print(client, "zone=\"a\"");
    assert_has("\nrelock_acquired_total{zone=\"a\"} 0\n");
    assert_has("\nrelock_acquires_total{zone=\"a\",result=\"ok\"} 0\n");
    assert_has("\nrelock_hold_seconds_sum{zone=\"a\"} 0.000000\n");
    for (char *line = strtok(page, "\n"); line; line = strtok(NULL, "\n"))
        assert_true(*line == '#' || strstr(line, "{zone=\"a\""));
}

static void a_text_that_does_not_fit_is_cut(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    size_t whole = 0, len = 0;

    assert_result(relock_stats_print(client, NULL, NULL, 0, &whole), RELOCK_OK);
    memset(page, 'x', sizeof(page));
    assert_result(relock_stats_print(client, NULL, page, 100, &len), RELOCK_OK);
    assert_int_equal(len, whole);
    assert_int_equal(strlen(page), 99);
    assert_int_equal(page[100], 'x');
    assert_result(relock_stats_print(client, NULL, page, 100, NULL), RELOCK_E_INVALID);
    assert_result(relock_stats_print(client, NULL, NULL, 100, &len), RELOCK_E_INVALID);
    assert_result(relock_stats_print(NULL, NULL, page, 100, &len), RELOCK_E_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KINDS_TEST(calls_are_counted_by_their_result),
        SERVER_TEST(a_failure_is_counted),
        SERVER_TEST(a_multi_lock_counts_as_one_call),
        KINDS_TEST(the_time_of_a_hold_and_of_a_wait_is_known),
        SEMAPHORE_TEST(the_time_of_a_hold_and_of_a_wait_is_known),
        SERVER_TEST(a_handed_off_hold_begins_anew),
        SERVER_TEST(the_margin_of_renewals_is_known),
        SERVER_TEST(a_client_knows_whether_it_is_connected),
        SERVER_TEST(the_most_contended_names_come_first),
        SERVER_TEST(the_oldest_hold_has_an_age),
        SERVER_TEST(permits_are_counted),
        SERVER_TEST(the_text_has_every_counter),
        SERVER_TEST(each_line_has_the_labels),
        SERVER_TEST(a_text_that_does_not_fit_is_cut),
    };

    return SERVER_TESTS_RUN(tests);
}
