/*
 * A plain lock is exactly the string that redis-py, redsync and node-redlock write: it excludes
 * their holders, they exclude ours, and theirs are never touched.
 */
#include "support/actor.h"
#include "support/fixture.h"
#include "support/plain_peer.h"

#include <stdio.h>
#include <string.h>

#define LEASE_MS 30000
#define SHORT_MS 2000 /* outlives a second in which a machine stands still */
#define TOKEN_LEN 40

/* The token in Redis; valid until the next call but one. */
static const char *token_of(struct fixture *f)
{
    static char tokens[2][64];
    static unsigned n;
    char *token = tokens[n++ % 2];

    snprintf(token, sizeof(tokens[0]), "%s", probe_text(f->probe, "GET orders"));
    return token;
}

/* ---- the state in Redis -------------------------------------------------------------------- */

static void a_hold_is_a_string_of_40_digits_with_a_lease(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = plain_handle(f, fixture_client(f, NULL));
    const char *token;

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_string_equal(probe_text(f->probe, "TYPE orders"), "string");
    token = token_of(f);
    assert_int_equal(strlen(token), TOKEN_LEN);
    assert_int_equal(strspn(token, "0123456789abcdef"), TOKEN_LEN);
    assert_true(probe_pttl(f->probe, "orders") > 0);
    assert_true(probe_pttl(f->probe, "orders") <= LEASE_MS);
    assert_int_equal(probe_n_keys(f->probe), 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

static void levels_leave_the_string_as_it_is(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = plain_handle(f, fixture_client(f, NULL));
    char token[64];

    assert_result(relock_lock(lock), RELOCK_OK);
    snprintf(token, sizeof(token), "%s", token_of(f));
    assert_result(relock_trylock(lock), RELOCK_OK);
    assert_result(relock_timedlock(lock, SOON_MS), RELOCK_OK);
    assert_result(relock_extend(lock, 0, 2 * LEASE_MS), RELOCK_OK);
    assert_true(probe_pttl(f->probe, "orders") > LEASE_MS);
    for (int level = 0; level < 2; level++) {
        assert_string_equal(token_of(f), token);
        assert_result(relock_unlock(lock), RELOCK_OK);
        assert_true(probe_pttl(f->probe, "orders") > LEASE_MS);
    }
    assert_string_equal(token_of(f), token);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(probe_n_keys(f->probe), 0);
    assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);
}

static void each_hold_has_a_token_of_its_own(void **state)
{
    enum { N_CLIENTS = 2, N = 100 };
    static char tokens[N][64];
    struct fixture *f = *state;
    struct relock_lock *locks[N_CLIENTS];

    for (int i = 0; i < N_CLIENTS; i++)
        locks[i] = plain_handle(f, fixture_client(f, NULL));
    for (int i = 0; i < N; i++) {
        assert_result(relock_lock(locks[i % N_CLIENTS]), RELOCK_OK);
        snprintf(tokens[i], sizeof(tokens[i]), "%s", token_of(f));
        for (int before = 0; before < i; before++)
            assert_string_not_equal(tokens[i], tokens[before]);
        assert_result(relock_unlock(locks[i % N_CLIENTS]), RELOCK_OK);
    }
}

/* ---- others -------------------------------------------------------------------------------- */

static void others_and_ours_exclude_each_other(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = plain_handle(f, fixture_client(f, NULL));
    struct relock_lock *another = plain_handle(f, fixture_client(f, NULL));

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_false(plain_peer_lock(f->probe, "orders", PLAIN_PEER, LEASE_MS));
    assert_false(plain_peer_unlock(f->probe, "orders", PLAIN_PEER));
    assert_result(relock_trylock(another), RELOCK_BUSY);
    assert_int_equal(strlen(token_of(f)), TOKEN_LEN);
    assert_result(relock_unlock(lock), RELOCK_OK);

    assert_true(plain_peer_lock(f->probe, "orders", PLAIN_PEER, LEASE_MS));
    assert_result(relock_trylock(lock), RELOCK_BUSY);
    assert_result(fixture_timedlock(another, 30), RELOCK_TIMEOUT);
    assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);
    assert_string_equal(token_of(f), PLAIN_PEER);
    assert_true(plain_peer_unlock(f->probe, "orders", PLAIN_PEER));
    assert_result(relock_trylock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* redis-py's lock without a timeout, say. */
static void a_stranger_without_a_lease_keeps_ours_out(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = plain_handle(f, fixture_client(f, NULL));
    struct relock_holder holder;

    assert_int_equal(probe_int(f->probe, "SET orders " PLAIN_PEER " NX"), 0);
    assert_result(relock_trylock(lock), RELOCK_BUSY);
    assert_result(fixture_timedlock(lock, 30), RELOCK_TIMEOUT);
    assert_result(relock_who_holds(lock, &holder), RELOCK_OK);
    assert_int_equal(holder.ttl_ms, -1);
    assert_int_equal(probe_pttl(f->probe, "orders"), -1);
    assert_true(plain_peer_unlock(f->probe, "orders", PLAIN_PEER));
}

struct step {
    const char *what;
    int (*take)(struct relock_lock *lock);
};

static int extend_it(struct relock_lock *lock)
{
    return relock_extend(lock, 0, 2 * LEASE_MS);
}

/* Neither by an unlock nor by another call of the owner that lost it. */
static void a_strangers_hold_is_never_touched(void **state)
{
    static const struct step steps[] = {
        {"unlock", relock_unlock}, {"lock", relock_lock}, {"extend", extend_it}};
    struct fixture *f = *state;
    struct relock_lock *lock = plain_handle(f, fixture_client(f, NULL));

    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
        for (int levels = 1; levels <= 2; levels++) {
            int left = levels;

            print_message("%s at level %d\n", steps[i].what, levels);
            for (int level = 0; level < levels; level++)
                assert_result(relock_lock(lock), RELOCK_OK);
            assert_true(plain_peer_usurp(f->probe, "orders", PLAIN_PEER, LEASE_MS));
            assert_result(steps[i].take(lock), RELOCK_LOST);
            if (steps[i].take == relock_unlock)
                left--;
            for (; left > 0; left--)
                assert_result(relock_unlock(lock), RELOCK_LOST);
            assert_string_equal(token_of(f), PLAIN_PEER);
            assert_true(probe_pttl(f->probe, "orders") <= LEASE_MS);
            assert_true(plain_peer_unlock(f->probe, "orders", PLAIN_PEER));
        }
    }
}

static void the_watchdog_leaves_a_strangers_lease_alone(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, SHORT_MS);
    struct relock_lock *lock = plain_handle(f, client);

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(plain_peer_usurp(f->probe, "orders", PLAIN_PEER, LEASE_MS));
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_int_equal(losses_get(f->losses, 0).reason, RELOCK_LOST_TAKEN);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    fixture_free_client(f, client);
    assert_string_equal(token_of(f), PLAIN_PEER);
    assert_true(plain_peer_unlock(f->probe, "orders", PLAIN_PEER));
}

static void a_level_whose_hold_is_gone_creates_nothing(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = plain_handle(f, fixture_client(f, NULL));

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    assert_result(relock_unlock(lock), RELOCK_LOST); /* not the last one: it looks, too */
    assert_result(relock_lock(lock), RELOCK_LOST);
    assert_int_equal(probe_n_keys(f->probe), 0);
    assert_result(relock_unlock(lock), RELOCK_LOST);
}

/* A lock of another kind by a program that has the name for something else: nobody's to decide. */
static void a_key_of_another_type_is_refused_and_left_alone(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = plain_handle(f, fixture_client(f, NULL));
    struct relock_lock *reentrant = fixture_lock(f, fixture_client(f, NULL), "orders");
    struct relock_holder holder;

    assert_result(relock_lock(reentrant), RELOCK_OK);
    assert_result(relock_trylock(lock), RELOCK_E_SERVER);
    assert_result(relock_lock(lock), RELOCK_E_SERVER);
    assert_result(relock_who_holds(lock, &holder), RELOCK_E_SERVER);
    assert_result(relock_force_unlock(lock), RELOCK_E_SERVER);
    assert_true(log_wait(f->log, "WRONGTYPE", SOON_MS));
    assert_int_equal(probe_only_value(f->probe, "orders"), 1);
    assert_result(relock_unlock(reentrant), RELOCK_OK);

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_trylock(reentrant), RELOCK_E_SERVER);
    assert_int_equal(strlen(token_of(f)), TOKEN_LEN);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* ---- queries, and force -------------------------------------------------------------------- */

static void the_reported_holder_is_the_token(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = plain_handle(f, fixture_client(f, NULL));
    struct relock_holder holder;

    assert_result(relock_who_holds(lock, &holder), RELOCK_OK);
    assert_string_equal(holder.id, "");
    assert_int_equal(holder.n_holders, 0);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_who_holds(lock, &holder), RELOCK_OK);
    assert_string_equal(holder.id, token_of(f));
    assert_result(relock_unlock(lock), RELOCK_OK);

    assert_true(plain_peer_lock(f->probe, "orders", PLAIN_PEER, LEASE_MS));
    assert_result(relock_who_holds(lock, &holder), RELOCK_OK);
    assert_string_equal(holder.id, PLAIN_PEER);
    assert_int_equal(holder.n_holders, 1);
    assert_true(plain_peer_unlock(f->probe, "orders", PLAIN_PEER));
}

static int ask_count(void *lock)
{
    unsigned count;

    return relock_hold_count(lock, &count) == RELOCK_OK ? (int)count : -1;
}

/* Redis has no levels: those of the caller are known here, while Redis has its hold. */
static void the_owner_sees_its_levels_and_others_see_one(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = plain_handle(f, client);
    struct relock_lock *another = plain_handle(f, fixture_client(f, NULL));
    struct actor *stranger = actor_start();
    struct relock_holder holder;

    for (unsigned level = 1; level <= 3; level++) {
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_int_equal(ask_count(lock), level);
        assert_result(relock_who_holds(lock, &holder), RELOCK_OK);
        assert_int_equal(holder.hold_count, level);
    }
    assert_result(relock_who_holds(another, &holder), RELOCK_OK);
    assert_int_equal(holder.hold_count, 1);
    assert_int_equal(ask_count(another), 0);
    actor_begin(stranger, ask_count, lock);
    assert_int_equal(actor_result(stranger), 0);

    assert_true(plain_peer_usurp(f->probe, "orders", PLAIN_PEER, LEASE_MS));
    assert_int_equal(ask_count(lock), 0);
    assert_result(relock_who_holds(lock, &holder), RELOCK_OK);
    assert_int_equal(holder.hold_count, 1);
    for (int level = 0; level < 3; level++)
        assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_true(plain_peer_unlock(f->probe, "orders", PLAIN_PEER));
}

static void force_frees_the_lock_of_any_holder(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = plain_handle(f, fixture_client(f, NULL));
    char longer[300];

    memset(longer, 't', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    assert_result(relock_force_unlock(lock), RELOCK_OK);
    assert_true(plain_peer_lock(f->probe, "orders", PLAIN_PEER, LEASE_MS));
    assert_result(relock_force_unlock(lock), RELOCK_OK);
    assert_int_equal(probe_n_keys(f->probe), 0);
    assert_int_equal(probe_int(f->probe, "SET orders %s", longer), 0);
    assert_result(relock_force_unlock(lock), RELOCK_OK);
    assert_int_equal(probe_n_keys(f->probe), 0);
    assert_int_equal(probe_int(f->probe, "SET orders %s", ""), 0);
    assert_result(relock_trylock(lock), RELOCK_BUSY);
    assert_result(relock_force_unlock(lock), RELOCK_OK);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_hold_is_a_string_of_40_digits_with_a_lease),
        SERVER_TEST(levels_leave_the_string_as_it_is),
        SERVER_TEST(each_hold_has_a_token_of_its_own),
        SERVER_TEST(others_and_ours_exclude_each_other),
        SERVER_TEST(a_stranger_without_a_lease_keeps_ours_out),
        SERVER_TEST(a_strangers_hold_is_never_touched),
        SERVER_TEST(the_watchdog_leaves_a_strangers_lease_alone),
        SERVER_TEST(a_level_whose_hold_is_gone_creates_nothing),
        SERVER_TEST(a_key_of_another_type_is_refused_and_left_alone),
        SERVER_TEST(the_reported_holder_is_the_token),
        SERVER_TEST(the_owner_sees_its_levels_and_others_see_one),
        SERVER_TEST(force_frees_the_lock_of_any_holder),
    };

    return SERVER_TESTS_RUN(tests);
}
