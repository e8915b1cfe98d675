/* Questions about red locks: a quorum of the servers answers them. */
#include "support/actor.h"
#include "support/peer.h"
#include "support/red.h"

#include <string.h>

#define LEASE_MS 30000 /* the default */
#define SHORT_MS 10000
#define TIMEOUT_MS 300

/* How late a call may end. */
#define LATE_MS 3000

/* ---- all four ------------------------------------------------------------------------------ */

static void assert_free(struct relock_lock *lock)
{
    struct relock_holder holder;
    bool locked = true;
    int64_t ttl_ms = 7;
    unsigned count = 7;

    memset(&holder, 0x55, sizeof(holder));
    assert_result(relock_who_holds(lock, &holder), RELOCK_OK);
    assert_string_equal(holder.id, "");
    assert_int_equal(holder.ttl_ms, -2);
    assert_int_equal(holder.hold_count, 0);
    assert_int_equal(holder.n_holders, 0);
    assert_null(holder.member);
    assert_false(holder.other_side);
    assert_result(relock_is_locked(lock, &locked), RELOCK_OK);
    assert_false(locked);
    assert_result(relock_ttl_ms(lock, &ttl_ms), RELOCK_OK);
    assert_int_equal(ttl_ms, -2);
    assert_result(relock_hold_count(lock, &count), RELOCK_OK);
    assert_int_equal(count, 0);
}

static void assert_held(struct relock_lock *lock, unsigned own, unsigned levels)
{
    struct relock_holder holder = {.id = ""};
    bool locked = false;
    int64_t ttl_ms = -2;
    unsigned count = 7;

    assert_result(relock_who_holds(lock, &holder), RELOCK_OK);
    assert_string_not_equal(holder.id, "");
    assert_in_range(holder.ttl_ms, 1, LEASE_MS);
    assert_int_equal(holder.hold_count, levels);
    assert_int_equal(holder.n_holders, 1);
    assert_result(relock_is_locked(lock, &locked), RELOCK_OK);
    assert_true(locked);
    assert_result(relock_ttl_ms(lock, &ttl_ms), RELOCK_OK);
    assert_in_range(ttl_ms, 1, LEASE_MS);
    assert_result(relock_hold_count(lock, &count), RELOCK_OK);
    assert_int_equal(count, own);
}

static bool is_by(const struct red *red, const char *id)
{
    for (size_t i = 0; i < red->n; i++)
        if (strncmp(id, relock_client_id(red->clients[i]), 36) == 0)
            return true;
    return false;
}

/* ---- the holder ---------------------------------------------------------------------------- */

static void a_hold_is_seen_by_its_owner_with_its_levels_and_by_others(void **state)
{
    struct servers *s = *state;
    struct red ours = red_new(s, NULL), theirs = red_new(s, NULL);
    struct relock_holder holder;

    assert_free(ours.lock);
    red_settle(s, &ours, s->n);
    red_settle(s, &theirs, s->n);
    assert_free(ours.lock);
    red_lock_on_all(s, &ours);
    assert_result(relock_lock(ours.lock), RELOCK_OK);
    assert_held(ours.lock, 2, 2);
    assert_held(theirs.lock, 0, 1); /* levels are counted in the process alone */
    assert_result(relock_who_holds(ours.lock, &holder), RELOCK_OK);
    assert_true(is_by(&ours, holder.id));
    assert_result(relock_who_holds(theirs.lock, &holder), RELOCK_OK);
    assert_true(is_by(&ours, holder.id));
    assert_result(relock_unlock(ours.lock), RELOCK_OK);
    assert_held(ours.lock, 1, 1);
    red_unlock(&ours);
    assert_true(red_wait_keys(s, 0));
    assert_free(ours.lock);
    assert_free(theirs.lock);
}

static void the_count_is_that_of_the_calling_thread(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, NULL);
    struct actor *actor = actor_start();
    unsigned count = 7;

    red_settle(s, &red, s->n);
    assert_result(actor_acquire(actor, red.lock, &(struct relock_how){.wait_ms = RELOCK_FOREVER}),
                  RELOCK_OK);
    assert_held(red.lock, 0, 1);
    assert_result(relock_hold_count_of(red.lock, actor_grant(actor).owner, &count), RELOCK_OK);
    assert_int_equal(count, 1);
    red_unlock_by(actor, &red);
}

static bool has_short_ttl(void *lock)
{
    int64_t ttl_ms;

    assert_result(relock_ttl_ms(lock, &ttl_ms), RELOCK_OK);
    return ttl_ms >= 1 && ttl_ms <= SHORT_MS;
}

static void a_minority_of_votes_holds_nothing(void **state)
{
    struct servers *s = *state;
    struct red ours = red_new(s, NULL), theirs = red_new(s, NULL);
    int64_t ttl_ms;
    bool locked;

    red_settle(s, &ours, s->n);
    for (size_t i = 0; i < 2; i++)
        assert_result(relock_lock(theirs.members[i]), RELOCK_OK);
    assert_free(ours.lock);
    /* Now two are free, and the first lease that ends makes a quorum. */
    assert_result(acquire_for(theirs.members[2], SHORT_MS), RELOCK_OK);
    assert_result(relock_is_locked(ours.lock, &locked), RELOCK_OK);
    assert_true(locked);
    assert_result(relock_trylock(ours.lock), RELOCK_BUSY);
    assert_true(red_wait_keys(s, 3)); /* the two votes that it got are given back */
    for (size_t i = 0; i < 2; i++)
        assert_result(relock_unlock(theirs.members[i]), RELOCK_OK);
    assert_free(ours.lock);
    for (size_t i = 0; i < 2; i++)
        probe_int(s->probe[i], "HSET " RED_NAME " %s 1", PEER); /* no lease */
    /* It takes the answers of all: a query waits little longer than for a quorum. */
    assert_true(wait_until(has_short_ttl, ours.lock, SHORT_MS));
    probe_int(s->probe[3], "HSET " RED_NAME " %s 1", PEER);
    assert_result(relock_ttl_ms(ours.lock, &ttl_ms), RELOCK_OK);
    assert_int_equal(ttl_ms, -1);
    assert_result(relock_unlock(theirs.members[2]), RELOCK_OK);
    for (size_t i = 0; i < 4; i++)
        probe_int(s->probe[i], "DEL " RED_NAME);
}

static bool peer_is_reported(void *lock)
{
    struct relock_holder holder;

    assert_result(relock_who_holds(lock, &holder), RELOCK_OK);
    return strcmp(holder.id, PEER) == 0;
}

/* As in libraries that have one identity for all servers. The three that name the peer may be
 * slow. */
static void the_reported_holder_is_the_one_that_most_servers_name(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, NULL);

    red_settle(s, &red, s->n);
    for (size_t i = 0; i < s->n; i++)
        assert_true(peer_lock(s->probe[i], RED_NAME, i % 2 ? "other:1" : PEER, LEASE_MS));
    assert_true(wait_until(peer_is_reported, red.lock, SOON_MS));
    for (size_t i = 0; i < s->n; i++)
        assert_true(peer_unlock(s->probe[i], RED_NAME, i % 2 ? "other:1" : PEER));
}

static void readers_block_the_write_side_without_holding_it(void **state)
{
    struct servers *s = *state;
    struct red ours = red_new_of(s, NULL, relock_rdlock_new);
    struct red theirs = red_new_of(s, NULL, relock_rdlock_new);
    struct relock_lock *members[SERVERS_MAX], *writer;
    struct relock_holder holder;
    bool locked;

    for (size_t i = 0; i < s->n; i++)
        members[i] = fixture_lock_of(s->f, ours.clients[i], RED_NAME, relock_wrlock_new);
    writer = red_lock_of(s->f, members, s->n);
    red_settle(s, &ours, s->n);
    red_settle(s, &theirs, s->n);
    assert_result(relock_lock(ours.lock), RELOCK_OK);
    assert_result(relock_lock(theirs.lock), RELOCK_OK);
    assert_true(red_wait_quiet(s)); /* the last votes */
    assert_result(relock_who_holds(ours.lock, &holder), RELOCK_OK);
    assert_int_equal(holder.n_holders, 2);
    assert_false(holder.other_side);
    assert_result(relock_is_locked(writer, &locked), RELOCK_OK);
    assert_false(locked);
    assert_result(relock_who_holds(writer, &holder), RELOCK_OK);
    assert_int_equal(holder.n_holders, 2);
    assert_true(holder.other_side);
    assert_in_range(holder.ttl_ms, 1, LEASE_MS);
    red_unlock(&theirs);
    red_unlock(&ours);
    assert_true(red_wait_quiet(s));
}

/* ---- servers that do not answer ------------------------------------------------------------ */

static void assert_answers_at_once(struct relock_lock *lock, unsigned own)
{
    uint64_t began_ms = now_ms();

    assert_held(lock, own, 1);
    assert_no_later(now_ms() - began_ms, slow_ms(LATE_MS)); /* a timeout is longer */
}

static void a_minority_that_is_down_or_hangs_neither_fails_nor_delays_a_query(void **state)
{
    struct servers *s = *state;
    const struct relock_options options = {.command_timeout_ms = slow_ms(2 * LATE_MS)};
    struct red ours = red_new(s, &options), theirs = red_new(s, &options);

    red_settle(s, &ours, s->n);
    red_settle(s, &theirs, s->n);
    red_lock_on_all(s, &ours);
    server_kill(s->server[1]);
    server_pause(s->server[4]);
    assert_answers_at_once(ours.lock, 1);
    assert_answers_at_once(theirs.lock, 0);
    red_unlock(&ours);
    servers_up(s);
    assert_true(red_wait_keys(s, 0));
}

static void a_minority_that_was_never_up_fails_no_query(void **state)
{
    struct servers *s = *state;
    struct red red;

    server_kill(s->server[0]);
    server_kill(s->server[3]);
    red = red_new(s, NULL);
    assert_free(red.lock);
    assert_result(relock_lock(red.lock), RELOCK_OK);
    assert_held(red.lock, 1, 1);
    red_unlock(&red);
}

static void a_majority_that_hangs_fails_a_query_in_time(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, NULL);
    struct red hasty =
        red_new(s, &(struct relock_options){.command_timeout_ms = slow_ms(TIMEOUT_MS)});
    uint64_t began_ms;
    bool locked;

    red_settle(s, &red, s->n);
    for (size_t i = 0; i < 3; i++)
        server_pause(s->server[i]);
    began_ms = now_ms();
    assert_result(relock_is_locked(hasty.lock, &locked), RELOCK_E_CONN);
    assert_took(began_ms, slow_ms(TIMEOUT_MS), LATE_MS);
    servers_up(s);
    assert_free(red.lock); /* asks until they answer */
}

/* Otherwise each query would add a command to its queue. */
static void queries_do_not_pile_up_at_a_server_that_hangs(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, NULL);
    long long before, n_first = 0;
    uint64_t began_ms;

    red_settle(s, &red, s->n);
    assert_true(red_wait_quiet(s));
    before = probe_script_calls(s->probe[4]);
    server_pause(s->server[4]);
    for (began_ms = now_ms(); now_ms() - began_ms < 1000; n_first += 4)
        assert_free(red.lock);
    for (int i = 0; i < 100; i++)
        assert_free(red.lock);
    server_resume(s->server[4]);
    assert_true(red_wait_quiet(s));
    assert_in_range(probe_script_calls(s->probe[4]) - before, 1, n_first);
}

static void a_refusing_server_costs_one_answer_and_a_refusing_majority_is_the_result(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, NULL);
    uint64_t began_ms;
    bool locked;

    red_settle(s, &red, s->n);
    for (size_t i = 0; i < 2; i++)
        probe_int(s->probe[i], "SET " RED_NAME " text");
    assert_free(red.lock);
    probe_int(s->probe[2], "SET " RED_NAME " text");
    began_ms = now_ms();
    assert_result(relock_is_locked(red.lock, &locked), RELOCK_E_SERVER);
    assert_no_later(now_ms() - began_ms, slow_ms(LATE_MS));
    assert_true(log_wait(s->f->log, "WRONGTYPE", SOON_MS));
    for (size_t i = 0; i < 3; i++)
        probe_int(s->probe[i], "DEL " RED_NAME);
}

static void scripts_that_are_gone_are_loaded_again(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, NULL);

    red_settle(s, &red, s->n);
    assert_result(relock_lock(red.lock), RELOCK_OK);
    for (size_t i = 0; i < s->n; i++)
        probe_int(s->probe[i], "SCRIPT FLUSH");
    assert_held(red.lock, 1, 1);
    red_unlock(&red);
}

static void a_freed_client_costs_one_answer(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, NULL);
    bool locked;

    red_settle(s, &red, s->n);
    fixture_free_client(s->f, red.clients[4]);
    fixture_free_client(s->f, red.clients[3]);
    assert_free(red.lock);
    fixture_free_client(s->f, red.clients[2]);
    assert_result(relock_is_locked(red.lock, &locked), RELOCK_E_CLOSED);
}

/* ---- many at once -------------------------------------------------------------------------- */

struct asking {
    struct relock_lock *lock;
    uint64_t until_ms;
};

static int ask_on(void *arg)
{
    const struct asking *asking = arg;
    struct relock_holder holder;
    unsigned count;
    int r = RELOCK_OK;

    while (r == RELOCK_OK && now_ms() < asking->until_ms) {
        r = relock_hold_count(asking->lock, &count);
        if (r == RELOCK_OK)
            r = relock_who_holds(asking->lock, &holder);
    }
    return r;
}

static void queries_do_not_hinder_locking(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, NULL);
    struct asking asking = {red.lock, now_ms() + 500};
    struct actor *actors[3];
    unsigned count;

    red_settle(s, &red, s->n);
    actors_begin(actors, 3, ask_on, &asking);
    while (now_ms() < asking.until_ms) {
        assert_result(relock_lock(red.lock), RELOCK_OK);
        assert_result(relock_hold_count(red.lock, &count), RELOCK_OK);
        assert_int_equal(count, 1);
        red_unlock(&red);
    }
    assert_results(actors, 3, RELOCK_OK);
    assert_true(red_wait_keys(s, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVERS_TEST(a_hold_is_seen_by_its_owner_with_its_levels_and_by_others),
        SERVERS_TEST(the_count_is_that_of_the_calling_thread),
        SERVERS_TEST(a_minority_of_votes_holds_nothing),
        SERVERS_TEST(the_reported_holder_is_the_one_that_most_servers_name),
        SERVERS_TEST(readers_block_the_write_side_without_holding_it),
        SERVERS_TEST(a_minority_that_is_down_or_hangs_neither_fails_nor_delays_a_query),
        SERVERS_TEST(a_minority_that_was_never_up_fails_no_query),
        SERVERS_TEST(a_majority_that_hangs_fails_a_query_in_time),
        SERVERS_TEST(queries_do_not_pile_up_at_a_server_that_hangs),
        SERVERS_TEST(a_refusing_server_costs_one_answer_and_a_refusing_majority_is_the_result),
        SERVERS_TEST(scripts_that_are_gone_are_loaded_again),
        SERVERS_TEST(a_freed_client_costs_one_answer),
        SERVERS_TEST(queries_do_not_hinder_locking),
    };

    return SERVERS_TESTS_RUN(tests);
}
