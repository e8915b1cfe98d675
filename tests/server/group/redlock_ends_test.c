/* Red locks: clients that are freed meanwhile, and their remains. */
#include "support/red.h"

#define N_WAITS 3
#define LEASE_MS 6000 /* outlives seconds in which a machine stands still */

static void a_freed_client_costs_the_holder_one_vote(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, &(struct relock_options){.watchdog_timeout_ms = slow_ms(LEASE_MS)});
    struct relock_lock *stranger = red_new(s, NULL).lock;

    red_settle(s, &red, s->n);
    red_lock_on_all(s, &red);
    red_wait_votes(&red);
    fixture_free_client(s->f, red.clients[s->n - 1]);
    assert_false(red_has_key(s, s->n - 1));
    assert_result(relock_extend(red.lock, 0, 40000), RELOCK_OK);
    assert_result(relock_lock(red.lock), RELOCK_OK);
    assert_result(relock_unlock(red.lock), RELOCK_OK);
    assert_result(relock_trylock(stranger), RELOCK_BUSY);
    red_unlock(&red);
    assert_int_equal(losses_count(s->f->losses), 0);
    assert_true(red_wait_keys(s, 0));
}

static void a_majority_of_freed_clients_is_a_reported_loss(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, NULL);

    red_settle(s, &red, s->n);
    red_lock_on_all(s, &red);
    for (size_t i = s->n / 2; i < s->n; i++)
        fixture_free_client(s->f, red.clients[i]);
    assert_true(losses_wait(s->f->losses, 1, SOON_MS));
    assert_result(relock_unlock(red.lock), RELOCK_LOST);
    assert_true(red_wait_keys(s, 0));
    assert_int_equal(losses_count(s->f->losses), 1);
}

static void queued_releases_reach_slow_servers_before_their_clients_are_freed(void **state)
{
    struct servers *s = *state;
    struct red red = red_new_by_proxy(s, NULL);

    red_settle(s, &red, s->n);
    red_lock_on_all(s, &red);
    for (size_t i = s->n / 2 + 1; i < s->n; i++)
        proxy_delay(s->proxy[i], 100);
    red_unlock(&red);
    for (size_t i = s->n; i-- > 0;)
        fixture_free_client(s->f, red.clients[i]);
    assert_int_equal(red_n_keys(s), 0);
}

static void a_waiter_is_not_woken_by_votes_that_it_releases_itself(void **state)
{
    struct servers *s = *state;
    struct red red = red_new_by_proxy(s, NULL);
    struct relock_lock *in_the_way[SERVERS_MAX];
    size_t quorum = s->n / 2 + 1;
    size_t n_before;

    red_settle(s, &red, s->n);
    for (size_t i = 0; i < quorum; i++) {
        in_the_way[i] = fixture_lock(s->f, servers_client(s, i, NULL), RED_NAME);
        assert_result(relock_lock(in_the_way[i]), RELOCK_OK);
    }
    n_before = proxy_count(s->proxy[quorum], "EVALSHA");
    for (int i = 0; i < N_WAITS; i++)
        assert_result(fixture_timedlock(red.lock, 1000), RELOCK_TIMEOUT);
    assert_true(proxy_counts(s->proxy[quorum], "EVALSHA", n_before + N_WAITS * 2));
    /* One attempt at once, and at most one for each new subscription; each is released. */
    assert_true(proxy_count(s->proxy[quorum], "EVALSHA") - n_before <= N_WAITS * 6 * s->n);
    for (size_t i = 0; i < quorum; i++)
        assert_result(relock_unlock(in_the_way[i]), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVERS_TEST(a_freed_client_costs_the_holder_one_vote),
        SERVERS_TEST(a_majority_of_freed_clients_is_a_reported_loss),
        SERVERS_TEST(queued_releases_reach_slow_servers_before_their_clients_are_freed),
        SERVERS_TEST(a_waiter_is_not_woken_by_votes_that_it_releases_itself),
    };
    return SERVERS_TESTS_RUN(tests);
}
