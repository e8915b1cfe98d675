/* Fixed leases, how leases nest, and relock_extend. */
#include "support/fixture.h"
#include "support/peer.h"

#define SHORT_MS 600
#define FIRST_MS 1500   /* a lease that lasts until the next line runs */
#define RENEWED_MS 2000 /* one that a thread may be held up within */
#define LONG_MS 20000
#define LONG_LEAST_MS 12000 /* how much of it remains on a slow machine */

static int take_briefly(struct relock_lock *lock)
{
    return fixture_acquire(lock, &(struct relock_how){.lease_ms = slow_ms(SHORT_MS)});
}

/* Waits for so many further renewals, one every three tenths of RENEWED_MS. */
static void let_renew(struct relock_client *client, uint64_t n)
{
    assert_true(wait_for_renewals(client, stats_of(client).renewed, n));
}

static void a_fixed_lease_is_not_renewed_and_ends_on_time(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, SHORT_MS);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    uint64_t before_ms;
    long long pttl, last = (long long)slow_ms(SHORT_MS);
    int r;

    do {
        before_ms = now_ms();
        r = acquire_for(lock, slow_ms(SHORT_MS));
    } while (r == RELOCK_E_CONN); /* the lease ended before the reply arrived */
    assert_result(r, RELOCK_OK);
    while ((pttl = probe_pttl(f->probe, "orders")) >= 0) {
        assert_true(pttl <= last);
        last = pttl;
        let_pass(2);
    }
    assert_took(before_ms, slow_ms(SHORT_MS), slow_ms(5000));
    assert_int_equal(stats_of(client).renewed, 0);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);
}

static void a_fixed_lease_can_be_released_before_its_end(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");

    assert_result(acquire_for(lock, LONG_MS), RELOCK_OK);
    assert_true(probe_pttl(f->probe, "orders") > LONG_LEAST_MS);
    assert_true(probe_pttl(f->probe, "orders") <= LONG_MS);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(losses_count(f->losses), 0);
}

/* Certainty ends before the lease does in Redis. */
static void a_grant_is_certain_for_less_than_the_lease(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");
    struct relock_grant grant;

    assert_result(relock_acquire(lock, &(struct relock_how){.lease_ms = LONG_MS}, &grant),
                  RELOCK_OK);
    assert_true(grant.valid_ms > LONG_LEAST_MS);
    assert_true(grant.valid_ms < LONG_MS);
    for (int i = 0; i < 100; i++) {
        long long pttl = probe_pttl(f->probe, "orders");

        assert_true((long long)relock_valid_ms(lock) < pttl);
    }
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_nested_lease_does_not_shorten_the_outer_one(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");

    assert_result(acquire_for(lock, LONG_MS), RELOCK_OK);
    assert_result(acquire_for(lock, SHORT_MS), RELOCK_OK);
    assert_true(probe_pttl(f->probe, "orders") > LONG_LEAST_MS);
    assert_true(relock_valid_ms(lock) > LONG_LEAST_MS);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(probe_pttl(f->probe, "orders") > LONG_LEAST_MS);
    assert_true(relock_valid_ms(lock) > LONG_LEAST_MS);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_nested_lease_may_lengthen_the_outer_one(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");

    assert_result(acquire_for(lock, slow_ms(5000)), RELOCK_OK);
    assert_result(acquire_for(lock, slow_ms(60000)), RELOCK_OK);
    assert_true(relock_valid_ms(lock) > slow_ms(30000));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(probe_pttl(f->probe, "orders") > (long long)slow_ms(30000));
    assert_true(relock_valid_ms(lock) > slow_ms(30000));
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_renewed_hold_goes_on_under_a_short_nested_lease(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, RENEWED_MS);
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(acquire_for(lock, slow_ms(50)), RELOCK_OK);
    let_renew(client, 2);
    assert_result(relock_check(lock, 0, NULL), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    let_renew(client, 2);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_hold_is_renewed_once_a_level_asked_for_it(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, RENEWED_MS);
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    assert_result(acquire_for(lock, slow_ms(RENEWED_MS)), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    let_renew(client, 4);
    assert_result(relock_check(lock, 0, NULL), RELOCK_OK);
    assert_true(probe_pttl(f->probe, "orders") > 0);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void extend_lengthens_a_fixed_lease(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");

    assert_result(acquire_for(lock, slow_ms(FIRST_MS)), RELOCK_OK);
    assert_result(relock_extend(lock, 0, slow_ms(LONG_MS)), RELOCK_OK);
    assert_true(probe_pttl(f->probe, "orders") > (long long)slow_ms(LONG_LEAST_MS));
    assert_true(relock_valid_ms(lock) > slow_ms(LONG_LEAST_MS));
    let_pass(slow_ms(FIRST_MS));
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void extend_on_a_renewed_hold_survives_its_renewals(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, RENEWED_MS);
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_extend(lock, 0, slow_ms(LONG_MS)), RELOCK_OK);
    let_renew(client, 2);
    assert_true(probe_pttl(f->probe, "orders") > (long long)slow_ms(LONG_LEAST_MS));
    assert_true(relock_valid_ms(lock) > slow_ms(LONG_LEAST_MS));
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_renewed_hold_that_was_extended_goes_on_after_that(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, RENEWED_MS);
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_extend(lock, 0, slow_ms(RENEWED_MS + 500)), RELOCK_OK);
    let_renew(client, 5);
    assert_result(relock_check(lock, 0, NULL), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void an_extension_by_a_stranger_changes_nothing(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");

    assert_result(relock_extend(lock, 0, LONG_MS), RELOCK_NOT_OWNER);
    assert_int_equal(probe_int(f->probe, "EXISTS orders"), 0);

    assert_true(peer_lock(f->probe, "orders", PEER, SHORT_MS));
    assert_result(relock_extend(lock, 0, LONG_MS), RELOCK_NOT_OWNER);
    assert_true(probe_pttl(f->probe, "orders") <= SHORT_MS);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
}

static void an_extension_after_the_end_returns_lost(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");

    assert_result(take_briefly(lock), RELOCK_OK);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
    assert_result(relock_extend(lock, 0, LONG_MS), RELOCK_LOST);
    assert_int_equal(probe_int(f->probe, "EXISTS orders"), 0);
    assert_result(relock_unlock(lock), RELOCK_LOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_fixed_lease_is_not_renewed_and_ends_on_time),
        SERVER_TEST(a_fixed_lease_can_be_released_before_its_end),
        SERVER_TEST(a_grant_is_certain_for_less_than_the_lease),
        SERVER_TEST(a_nested_lease_does_not_shorten_the_outer_one),
        SERVER_TEST(a_nested_lease_may_lengthen_the_outer_one),
        SERVER_TEST(a_renewed_hold_goes_on_under_a_short_nested_lease),
        SERVER_TEST(a_hold_is_renewed_once_a_level_asked_for_it),
        SERVER_TEST(extend_lengthens_a_fixed_lease),
        SERVER_TEST(extend_on_a_renewed_hold_survives_its_renewals),
        SERVER_TEST(a_renewed_hold_that_was_extended_goes_on_after_that),
        SERVER_TEST(an_extension_by_a_stranger_changes_nothing),
        SERVER_TEST(an_extension_after_the_end_returns_lost),
    };

    return SERVER_TESTS_RUN(tests);
}
