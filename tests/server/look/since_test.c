/* Since when locks are held: clients record it of holds that last for long. */
#include "support/keeping.h"
#include "support/kinds.h"
#include "support/peer.h"
#include "support/rights.h"

#include <stdio.h>
#include <string.h>

#define LONG_MS 40 /* from then on a hold is recorded */
#define LEASE_MS 30000
#define SHORT_MS 1200 /* a lease; records are sent anew after a third of it */
#define N_HOLDS 3000
#define SCAN 1024 /* holds that one visits */
#define RECORDS "relock_waits:*:since"

struct seen {
    struct relock_client *client;
    int64_t held_ms;
    char name[64]; /* of the holder's client */
};

static bool note(const struct relock_lock_info *info, void *arg)
{
    struct seen *seen = arg;

    seen->held_ms = info->held_ms;
    snprintf(seen->name, sizeof(seen->name), "%s", info->client_name);
    return true;
}

static int64_t held_ms(struct seen *seen)
{
    assert_result(relock_locks(seen->client, "orders", note, seen), RELOCK_OK);
    return seen->held_ms;
}

static bool is_known(void *arg)
{
    return held_ms(arg) >= 0;
}

static struct relock_client *recorder(struct fixture *f, uint64_t lease_ms)
{
    return fixture_client(f, &(struct relock_options){.client_name = "billing:7",
                                                      .deadlock_ms = LONG_MS,
                                                      .watchdog_timeout_ms = lease_ms});
}

static const char *records(struct fixture *f)
{
    return probe_list(f->probe, "KEYS " RECORDS);
}

static bool has_no_records(void *arg)
{
    return !*records(arg);
}

static void a_hold_of_each_kind_that_lasts_is_recorded(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = recorder(f, slow_ms(LEASE_MS));
    struct seen seen = {.client = fixture_client(f, NULL)};
    uint64_t before_ms = now_ms();
    struct relock_lock *lock = fixture_lock_of(f, client, "orders", kind_now()->constructor);

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(wait_until(is_known, &seen, SOON_MS));
    assert_in_range(seen.held_ms, LONG_MS / 2 - 1, now_ms() - before_ms + 1);
    assert_string_equal(seen.name, "billing:7");
    assert_in_range(probe_pttl(f->probe, records(f)), 1, slow_ms(LEASE_MS));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(held_ms(&seen), -1);
    fixture_free_client(f, client);
    assert_string_equal(records(f), "");
}

/* By the number of the hold, which no other one gets. */
static void a_record_of_an_earlier_hold_is_not_taken_for_the_present_one(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = recorder(f, slow_ms(LEASE_MS));
    struct seen seen = {.client = fixture_client(f, NULL)};
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_lock *other = fixture_lock(f, client, "other");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_lock(other), RELOCK_OK); /* the record stays */
    assert_true(wait_until(is_known, &seen, SOON_MS));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(peer_lock(f->probe, "orders", PEER, LEASE_MS));
    assert_int_equal(held_ms(&seen), -1);
    assert_true(peer_unlock(f->probe, "orders", PEER));
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(wait_until(is_known, &seen, SOON_MS));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_unlock(other), RELOCK_OK);
    assert_true(wait_until(has_no_records, f, SOON_MS));
}

static void a_short_hold_is_not_recorded(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    let_pass(300);
    assert_string_equal(records(f), "");
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_record_that_is_lost_is_written_anew(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = recorder(f, slow_ms(SHORT_MS));
    struct seen seen = {.client = fixture_client(f, NULL)};
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    uint64_t before_ms = now_ms();

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(wait_until(is_known, &seen, SOON_MS));
    assert_int_equal(probe_int(f->probe, "DEL %s", records(f)), 1);
    assert_int_equal(held_ms(&seen), -1);
    assert_true(wait_until(is_known, &seen, SOON_MS));
    assert_in_range(seen.held_ms, 0, now_ms() - before_ms + 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(wait_until(has_no_records, f, SOON_MS));
}

static bool has_all(void *arg)
{
    struct fixture *f = arg;

    return probe_int(f->probe, "HLEN %s", records(f)) == N_HOLDS + 1;
}

/* In several parts of several scans. */
static void many_holds_are_recorded(void **state)
{
    static struct relock_lock *locks[N_HOLDS];
    struct fixture *f = *state;
    struct relock_client *client = recorder(f, slow_ms(LEASE_MS));
    long long n_unlinks;

    for (int i = 0; i < N_HOLDS; i++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "lock:%d", i);
        assert_result(relock_lock_new(client, name, &locks[i]), RELOCK_OK);
        assert_result(relock_lock(locks[i]), RELOCK_OK);
    }
    assert_true(wait_until(has_all, f, SOON_MS));
    /* A scan that is to go on at a hold does so behind it when that has ended. */
    for (int i = SCAN; i < SCAN + 40; i++) {
        assert_result(relock_unlock(locks[i]), RELOCK_OK);
        let_pass(2);
    }
    for (int i = SCAN; i < SCAN + 40; i++)
        assert_result(relock_lock(locks[i]), RELOCK_OK);
    n_unlinks = probe_calls(f->probe, "unlink");
    for (int i = 0; i < N_HOLDS; i++) {
        assert_result(relock_unlock(locks[i]), RELOCK_OK);
        relock_lock_free(locks[i]);
    }
    assert_true(wait_until(has_no_records, f, SOON_MS));
    assert_true(probe_calls(f->probe, "unlink") > n_unlinks); /* DEL would block the server */
}

/* Fields of holds that have ended do not pile up. */
static void the_record_does_not_grow(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = recorder(f, slow_ms(LEASE_MS));
    struct seen seen = {.client = fixture_client(f, NULL)};
    struct relock_lock *stays = fixture_lock(f, client, "stays");
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    long long n, most = 0;

    assert_result(relock_lock(stays), RELOCK_OK);
    for (int i = 0; i < 80; i++) {
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_true(wait_until(is_known, &seen, SOON_MS));
        assert_result(relock_unlock(lock), RELOCK_OK);
        n = probe_int(f->probe, "HLEN %s", records(f));
        most = n > most ? n : most;
    }
    assert_in_range(most, 60, 72);
    assert_result(relock_unlock(stays), RELOCK_OK);
    assert_true(wait_until(has_no_records, f, SOON_MS));
}

/* Also if each look at the holds finds new ones. */
static void the_record_does_not_grow_under_load(void **state)
{
    enum { N_LOCKS = 16, N_STEPS = 480, PAUSE_MS = 4 };
    struct fixture *f = *state;
    struct relock_client *client = recorder(f, slow_ms(LEASE_MS));
    struct relock_lock *locks[N_LOCKS];
    long long n, most = 0;

    for (int i = 0; i < N_LOCKS; i++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "lock:%d", i);
        locks[i] = fixture_lock(f, client, name);
        assert_result(relock_lock(locks[i]), RELOCK_OK);
    }
    for (int i = 0; i < N_STEPS; i++) {
        assert_result(relock_unlock(locks[i % N_LOCKS]), RELOCK_OK);
        assert_result(relock_lock(locks[i % N_LOCKS]), RELOCK_OK);
        let_pass(PAUSE_MS);
        n = probe_int(f->probe, "HLEN %s", *records(f) ? records(f) : "none");
        most = n > most ? n : most;
    }
    print_message("%lld fields at most\n", most);
    assert_in_range(most, N_LOCKS / 2, 4 * N_LOCKS + 65);
    for (int i = 0; i < N_LOCKS; i++)
        assert_result(relock_unlock(locks[i]), RELOCK_OK);
    assert_true(wait_until(has_no_records, f, SOON_MS));
}

static bool is_recorded_anew(void *arg)
{
    return held_ms(arg) >= 0 && ((struct seen *)arg)->held_ms < 250;
}

/* It has the number in Redis of the hold before. */
static void a_kept_lock_is_recorded_anew_for_its_next_owner(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        keeping_client(f, &(struct relock_options){.deadlock_ms = LONG_MS});
    struct seen seen = {.client = fixture_client(f, NULL)};
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_lock *other = fixture_lock(f, client, "other");

    assert_result(relock_lock(other), RELOCK_OK); /* the record stays */
    assert_result(relock_lock(lock), RELOCK_OK);
    let_pass(1000);
    assert_true(wait_until(is_known, &seen, SOON_MS));
    assert_true(seen.held_ms > 900);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_int_equal(stats_of(client).reused, 1);
    assert_true(wait_until(is_recorded_anew, &seen, SOON_MS));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_unlock(other), RELOCK_OK);
}

static void a_user_without_the_right_is_not_told_and_holds_its_locks(void **state)
{
    struct fixture *f = *state;
    struct seen seen = {.client = fixture_client(f, NULL)};
    struct relock_client *client;
    struct relock_lock *lock;

    rights_give(f, "reentrant", "~relock_waits:");
    client = fixture_client(f, &(struct relock_options){.user = RIGHTS_USER,
                                                        .password = RIGHTS_PASSWORD,
                                                        .deadlock_ms = LONG_MS});
    lock = fixture_lock(f, client, "orders");
    probe_text(f->probe, "ACL LOG RESET");
    assert_result(relock_lock(lock), RELOCK_OK);
    while (!*probe_list(f->probe, "ACL LOG"))
        ;
    assert_int_equal(held_ms(&seen), -1);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(log_count(f->log, "NOPERM"), 0);
    fixture_free_client(f, client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KINDS_TEST(a_hold_of_each_kind_that_lasts_is_recorded),
        KINDS_TEST_OF(a_hold_of_each_kind_that_lasts_is_recorded, read),
        KINDS_TEST_OF(a_hold_of_each_kind_that_lasts_is_recorded, write),
        SERVER_TEST(a_record_of_an_earlier_hold_is_not_taken_for_the_present_one),
        SERVER_TEST(a_short_hold_is_not_recorded),
        SERVER_TEST(a_record_that_is_lost_is_written_anew),
        SERVER_TEST(many_holds_are_recorded),
        SERVER_TEST(the_record_does_not_grow),
        SERVER_TEST(the_record_does_not_grow_under_load),
        SERVER_TEST(a_kept_lock_is_recorded_anew_for_its_next_owner),
        SERVER_TEST(a_user_without_the_right_is_not_told_and_holds_its_locks),
    };

    return SERVER_TESTS_RUN(tests);
}
