/*
 * The waits that clients publish in Redis, where other clients find deadlocks: their content, their
 * end, and their consequences.
 */
#include "support/child.h"
#include "support/peer.h"
#include "support/rights.h"
#include "support/ring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A lock of ours that a foreign owner holds, and a wait for it. */
struct waiting {
    struct relock_client *client;
    struct relock_lock *mine, *theirs;
    struct actor *actor;
    char hash[64];
};

static struct waiting wait_for_a_peer(struct fixture *f, uint64_t deadlock_ms)
{
    struct waiting w = {.client = ring_client(f, 0, deadlock_ms)};

    w.mine = fixture_lock(f, w.client, "mine");
    w.theirs = fixture_lock(f, w.client, "theirs");
    w.actor = actor_start();
    snprintf(w.hash, sizeof(w.hash), "relock_waits:{%s}", relock_client_id(w.client));
    assert_true(peer_lock(f->probe, "theirs", PEER, PEER_LEASE_MS));
    assert_result(actor_lock(w.actor, w.mine), RELOCK_OK);
    return w;
}

static void end_waiting(struct fixture *f, const struct waiting *w)
{
    assert_true(probe_wait_no_key(f->probe, w->hash, SOON_MS));
    assert_result(actor_unlock(w->actor, w->mine), RELOCK_OK);
    assert_true(peer_unlock(f->probe, "theirs", PEER));
    assert_true(wait_for_no_keys(f->probe));
}

static void a_hash_shows_what_the_owner_of_a_hold_waits_for(void **state)
{
    struct fixture *f = *state;
    struct waiting w = wait_for_a_peer(f, DEADLOCK_MS);
    char field[64];
    const char *value;

    snprintf(field, sizeof(field), "%s",
             probe_only_field(f->probe, "mine") + strlen(relock_client_id(w.client)) + 1);
    actor_begin_timedlock(w.actor, w.theirs, slow_ms(8 * DEADLOCK_MS));
    assert_true(probe_wait_key(f->probe, w.hash));
    value = probe_text(f->probe, "HGET %s %s", w.hash, field);
    assert_true(strlen(value) > 12);
    assert_string_equal(value + strlen(value) - 12, " hash theirs");
    assert_int_equal(probe_int(f->probe, "HLEN %s", w.hash), 4);
    assert_in_range(probe_pttl(f->probe, w.hash), 1, 5000);
    assert_result(actor_result(w.actor), RELOCK_TIMEOUT);
    end_waiting(f, &w);
}

static void a_hash_goes_with_a_cancelled_wait(void **state)
{
    struct fixture *f = *state;
    struct waiting w = wait_for_a_peer(f, DEADLOCK_MS);
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};

    assert_result(relock_cancel_new(&how.cancel), RELOCK_OK);
    actor_begin_acquire(w.actor, w.theirs, &how);
    assert_true(probe_wait_key(f->probe, w.hash));
    relock_cancel_fire(how.cancel);
    assert_result(actor_result(w.actor), RELOCK_CANCELLED);
    end_waiting(f, &w);
    relock_cancel_free(how.cancel);
}

static void a_hash_goes_with_its_client(void **state)
{
    struct fixture *f = *state;
    struct waiting w = wait_for_a_peer(f, DEADLOCK_MS);

    actor_begin_lock(w.actor, w.theirs);
    assert_true(probe_wait_key(f->probe, w.hash));
    fixture_free_client(f, w.client);
    assert_int_equal(probe_int(f->probe, "EXISTS %s", w.hash), 0);
    assert_result(actor_result(w.actor), RELOCK_E_CLOSED);
    assert_true(peer_unlock(f->probe, "theirs", PEER));
    assert_true(wait_for_no_keys(f->probe));
}

static int free_inherited(struct child *parent, void *arg)
{
    (void)parent;
    child_must(relock_client_free(arg) == NULL);
    return EXIT_SUCCESS;
}

static void a_forked_child_leaves_the_hash_alone(void **state)
{
    struct fixture *f = *state;
    struct waiting w = wait_for_a_peer(f, DEADLOCK_MS);
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};

    assert_result(relock_cancel_new(&how.cancel), RELOCK_OK);
    actor_begin_acquire(w.actor, w.theirs, &how);
    assert_true(probe_wait_key(f->probe, w.hash));
    assert_int_equal(child_wait(child_start(free_inherited, w.client), SOON_MS), EXIT_SUCCESS);
    assert_true(probe_wait_key(f->probe, w.hash));
    relock_cancel_fire(how.cancel);
    assert_result(actor_result(w.actor), RELOCK_CANCELLED);
    end_waiting(f, &w);
    relock_cancel_free(how.cancel);
}

/* It has joined the line and listens. */
static bool is_quiet(void *probe)
{
    long long n_calls = probe_script_calls(probe);

    let_pass(2 * DEADLOCK_MS);
    return probe_script_calls(probe) == n_calls;
}

static void a_wait_of_an_owner_without_locks_is_not_published(void **state)
{
    struct fixture *f = *state;
    struct waiting w = wait_for_a_peer(f, slow_ms(1500));
    long long n_calls;

    assert_result(actor_unlock(w.actor, w.mine), RELOCK_OK);
    actor_begin_timedlock(w.actor, w.theirs, outlast_ms(3000));
    assert_true(probe_wait_subscribers(f->probe, "redisson_lock__channel:{theirs}", 1));
    assert_true(wait_until(is_quiet, f->probe, SOON_MS));
    n_calls = probe_script_calls(f->probe);
    assert_result(actor_result(w.actor), RELOCK_TIMEOUT);
    assert_in_range(probe_script_calls(f->probe) - n_calls, 0, 1); /* it leaves the line */
    assert_int_equal(probe_int(f->probe, "EXISTS %s", w.hash), 0);
    assert_true(peer_unlock(f->probe, "theirs", PEER));
    assert_true(wait_for_no_keys(f->probe));
}

#define DEAD_HASH "relock_waits:{9f2c1c5e-0a53-4b6c-8f2e-5a1d3c7b9e10}"

/* Another client claims by hand that the owner of its hold waits for this lock, since `at`. It does
 * not confirm it: it has died, say. */
static void claim_since(struct fixture *f, const char *at, const char *lock)
{
    static const char claim[] = "local\t_blank=string.char(32);"
                                "return(redis.call('hset',KEYS[1],'41',ARGV[3].._blank..'500'.._"
                                "blank..'3'.._blank..'hash'.."
                                "_blank..ARGV[2],'client',ARGV[1].._blank..'peer','beat','7'))";

    assert_int_equal(probe_int(f->probe,
                               "EVAL %s 1 " DEAD_HASH " 9f2c1c5e-0a53-4b6c-8f2e-5a1d3c7b9e10 %s %s",
                               claim, lock, at),
                     3);
}

/* It holds "theirs", and is the first one that waits. */
static void claim_a_wait(struct fixture *f, const char *lock)
{
    assert_true(peer_lock(f->probe, "theirs", PEER, PEER_LEASE_MS));
    claim_since(f, "5", lock);
}

static void a_hash_that_nobody_confirms_proves_nothing(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = ring_client(f, 0, DEADLOCK_MS);
    struct relock_lock *mine = fixture_lock(f, client, "mine");
    struct relock_lock *theirs = fixture_lock(f, client, "theirs");

    assert_result(relock_lock(mine), RELOCK_OK);
    claim_a_wait(f, "mine");
    assert_result(relock_timedlock(theirs, (int64_t)slow_ms(6 * DEADLOCK_MS)), RELOCK_TIMEOUT);
    assert_int_equal(probe_int(f->probe, "HEXISTS " DEAD_HASH " looked"), 1);
    probe_int(f->probe, "DEL " DEAD_HASH);
    assert_true(peer_unlock(f->probe, "theirs", PEER));
    assert_result(relock_unlock(mine), RELOCK_OK);
    assert_int_equal(stats_of(client).deadlocks, 0);
    assert_true(wait_for_no_keys(f->probe));
}

/* It ends the chain, so the looks are plain: the client that asks is not forgotten for them. */
static void a_look_that_does_not_ask_keeps_who_asks(void **state)
{
    struct fixture *f = *state;
    struct waiting w = {.client = ring_client(f, 0, DEADLOCK_MS)};

    w.mine = fixture_lock(f, w.client, "mine");
    w.theirs = fixture_lock(f, w.client, "theirs");
    assert_result(relock_lock(w.mine), RELOCK_OK);
    claim_a_wait(f, "free");
    probe_int(f->probe, "HSET " DEAD_HASH " looked asker");
    assert_result(relock_timedlock(w.theirs, (int64_t)slow_ms(6 * DEADLOCK_MS)), RELOCK_TIMEOUT);
    assert_string_equal(probe_text(f->probe, "HGET " DEAD_HASH " looked"), "asker");
    probe_int(f->probe, "HDEL " DEAD_HASH " looked");
    assert_result(relock_timedlock(w.theirs, (int64_t)slow_ms(6 * DEADLOCK_MS)), RELOCK_TIMEOUT);
    assert_int_equal(probe_int(f->probe, "HEXISTS " DEAD_HASH " looked"), 1); /* it has looked */
    probe_int(f->probe, "DEL " DEAD_HASH);
    assert_true(peer_unlock(f->probe, "theirs", PEER));
    assert_result(relock_unlock(w.mine), RELOCK_OK);
    assert_true(wait_for_no_keys(f->probe));
}

static long long server_us(struct probe *probe)
{
    long long s = 0, us = 0;

    assert_int_equal(sscanf(probe_list(probe, "TIME"), "%lld %lld", &s, &us), 2);
    return s * 1000000 + us;
}

/*
 * A writer waits for two readers, who want what it holds. These are two cycles. The reader that
 * waited first is the victim, but has died: then the other one is, once the hash has expired.
 */
static void the_hash_of_a_dead_victim_hides_the_next_one(void **state)
{
    struct fixture *f = *state;
    struct relock_client *clients[] = {ring_client(f, 0, DEADLOCK_MS),
                                       ring_client(f, 1, DEADLOCK_MS)};
    struct relock_lock *write = fixture_lock_of(f, clients[0], "shelf", relock_wrlock_new);
    struct relock_lock *read = fixture_lock_of(f, clients[1], "shelf", relock_rdlock_new);
    struct relock_lock *has = fixture_lock(f, clients[0], "a");
    struct relock_lock *wants = fixture_lock(f, clients[1], "a");
    struct actor *writer = actor_start(), *reader = actor_start();
    char hash[64], at[32];

    assert_result(actor_lock(reader, read), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "HSET shelf " PEER " 1"), 1);
    probe_text(f->probe, "SET {shelf}:" PEER ":rwlock_timeout:1 1 PX %d", PEER_LEASE_MS);
    assert_result(actor_lock(writer, has), RELOCK_OK);
    actor_begin_lock(writer, write);
    snprintf(hash, sizeof(hash), "relock_waits:{%s}", relock_client_id(clients[0]));
    assert_true(probe_wait_key(f->probe, hash));
    snprintf(at, sizeof(at), "%lld", server_us(f->probe));
    claim_since(f, at, "a");
    actor_begin_lock(reader, wants);
    snprintf(hash, sizeof(hash), "relock_waits:{%s}", relock_client_id(clients[1]));
    assert_true(probe_wait_key(f->probe, hash));
    let_pass(2 * DEADLOCK_MS);
    assert_true(actor_is_busy(reader) && actor_is_busy(writer));
    probe_int(f->probe, "DEL " DEAD_HASH);
    assert_result(actor_result(reader), RELOCK_E_DEADLOCK);
    assert_true(actor_is_busy(writer)); /* the dead reader's lease has not ended */
    probe_int(f->probe, "HDEL shelf " PEER);
    probe_int(f->probe, "DEL {shelf}:" PEER ":rwlock_timeout:1");
    assert_result(actor_unlock(reader, read), RELOCK_OK);
    assert_result(actor_result(writer), RELOCK_OK);
    assert_result(actor_unlock(writer, write), RELOCK_OK);
    assert_result(actor_unlock(writer, has), RELOCK_OK);
    assert_true(wait_for_no_keys(f->probe));
}

#define STORM_MS 2000
#define CALM \
    300 /* scripts in that time: there would be 1,000 and more if each answer made an ask */

/* Two clients and the dead one wait for each other, so the proof is never complete. */
static void a_proof_that_a_dead_client_holds_up_costs_little(void **state)
{
    struct fixture *f = *state;
    struct relock_client *clients[] = {ring_client(f, 0, DEADLOCK_MS),
                                       ring_client(f, 1, DEADLOCK_MS)};
    struct relock_lock *a[] = {fixture_lock(f, clients[0], "a"), fixture_lock(f, clients[0], "b")};
    struct relock_lock *b[] = {fixture_lock(f, clients[1], "b"),
                               fixture_lock(f, clients[1], "theirs")};
    struct actor *actors[] = {actor_start(), actor_start()};
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    long long n_calls;

    claim_a_wait(f, "a");
    assert_result(relock_cancel_new(&how.cancel), RELOCK_OK);
    assert_result(actor_lock(actors[0], a[0]), RELOCK_OK);
    assert_result(actor_lock(actors[1], b[0]), RELOCK_OK);
    actor_begin_acquire(actors[1], b[1], &how);
    assert_true(wait_for_waiters(clients[1], 1));
    let_pass(2 * DEADLOCK_MS); /* then the other one is the victim, who looks */
    actor_begin_acquire(actors[0], a[1], &how);
    let_pass(2 * DEADLOCK_MS);
    n_calls = probe_script_calls(f->probe);
    let_pass(STORM_MS);
    assert_in_range(probe_script_calls(f->probe) - n_calls, 1, CALM);
    relock_cancel_fire(how.cancel);
    for (int i = 0; i < 2; i++)
        assert_result(actor_result(actors[i]), RELOCK_CANCELLED);
    assert_result(actor_unlock(actors[0], a[0]), RELOCK_OK);
    assert_result(actor_unlock(actors[1], b[0]), RELOCK_OK);
    probe_int(f->probe, "DEL " DEAD_HASH);
    assert_true(peer_unlock(f->probe, "theirs", PEER));
    assert_true(wait_for_no_keys(f->probe));
    relock_cancel_free(how.cancel);
}

/* ---- asked, and alert ------------------------------------------------------------------------ */

#define N_ASKS 20
#define BEAT_MS 250    /* a client that nobody asks sends its hash so often */
#define RELAXED_MS 100 /* the default of `deadlock_ms` while there are no deadlocks */
#define ATTEMPTS 5

struct beat {
    struct probe *probe;
    const char *hash;
    long long last;
};

static long long beat_now(const struct beat *beat)
{
    return probe_int(beat->probe,
                     "EVAL return(tonumber(redis.call('hget',KEYS[1],'beat')or(0))) 1 %s",
                     beat->hash);
}

static bool has_grown(void *arg)
{
    const struct beat *beat = arg;

    return beat_now(beat) > beat->last;
}

static void a_client_that_is_asked_sends_its_hash_at_once(void **state)
{
    struct fixture *f = *state;
    struct waiting w = wait_for_a_peer(f, DEADLOCK_MS);
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    struct beat beat = {f->probe, w.hash, 0};
    char inbox[80];
    uint64_t from_ms;

    snprintf(inbox, sizeof(inbox), "relock_client:{%s}", relock_client_id(w.client));
    assert_result(relock_cancel_new(&how.cancel), RELOCK_OK);
    actor_begin_acquire(w.actor, w.theirs, &how);
    assert_true(probe_wait_key(f->probe, w.hash));
    assert_true(probe_wait_subscribers(f->probe, inbox, 1));
    from_ms = now_ms();
    for (int i = 0; i < N_ASKS; i++) {
        beat.last = beat_now(&beat);
        assert_int_equal(probe_int(f->probe, "PUBLISH %s waits", inbox), 1);
        assert_true(wait_until(has_grown, &beat, SOON_MS));
    }
    assert_true(now_ms() - from_ms < slow_ms(N_ASKS * BEAT_MS / 2));
    relock_cancel_fire(how.cancel);
    assert_result(actor_result(w.actor), RELOCK_CANCELLED);
    end_waiting(f, &w);
    relock_cancel_free(how.cancel);
}

/* How long a wait inside another lock has lasted when it is published. */
static unsigned long published_after(struct fixture *f, struct relock_client *client)
{
    struct relock_lock *mine = fixture_lock(f, client, "mine");
    struct relock_lock *theirs = fixture_lock(f, client, "theirs");
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    struct actor *actor = actor_start();
    unsigned long after_ms;
    char hash[64], field[64];

    snprintf(hash, sizeof(hash), "relock_waits:{%s}", relock_client_id(client));
    assert_result(relock_cancel_new(&how.cancel), RELOCK_OK);
    assert_true(peer_lock(f->probe, "theirs", PEER, PEER_LEASE_MS));
    assert_result(actor_lock(actor, mine), RELOCK_OK);
    actor_begin_acquire(actor, theirs, &how);
    assert_true(probe_wait_key(f->probe, hash));
    snprintf(field, sizeof(field), "%s",
             probe_only_field(f->probe, "mine") + strlen(relock_client_id(client)) + 1);
    after_ms = strtoul(strchr(probe_text(f->probe, "HGET %s %s", hash, field), ' '), NULL, 10);
    relock_cancel_fire(how.cancel);
    assert_result(actor_result(actor), RELOCK_CANCELLED);
    assert_result(actor_unlock(actor, mine), RELOCK_OK);
    assert_true(peer_unlock(f->probe, "theirs", PEER));
    assert_true(probe_wait_no_key(f->probe, hash, SOON_MS));
    relock_cancel_free(how.cancel);
    return after_ms;
}

/* Another owner waits in the hash of plain locks as well. Its wait ends, and that hash is deleted.
 */
static void the_end_of_another_wait_changes_no_time(void **state)
{
    struct fixture *f = *state;
    struct waiting w = wait_for_a_peer(f, DEADLOCK_MS);
    struct relock_lock *plain = fixture_lock_of(f, w.client, "plain", relock_plainlock_new);
    struct relock_how how[2] = {{.wait_ms = RELOCK_FOREVER}, {.wait_ms = RELOCK_FOREVER}};
    struct actor *other = actor_start();
    struct beat beat = {f->probe, w.hash, 0};
    char field[64], tokens[64];
    long long at_us;

    for (int i = 0; i < 2; i++)
        assert_result(relock_cancel_new(&how[i].cancel), RELOCK_OK);
    snprintf(field, sizeof(field), "%s",
             probe_only_field(f->probe, "mine") + strlen(relock_client_id(w.client)) + 1);
    actor_begin_acquire(w.actor, w.theirs, &how[0]);
    assert_true(probe_wait_key(f->probe, w.hash));
    at_us = probe_int(f->probe, "HGET %s %s", w.hash, field);
    assert_result(actor_lock(other, plain), RELOCK_OK);
    snprintf(tokens, sizeof(tokens), "relock_waits:{%.24s}", probe_text(f->probe, "GET plain"));
    actor_begin_acquire(other, w.theirs, &how[1]);
    assert_true(probe_wait_key(f->probe, tokens));
    relock_cancel_fire(how[1].cancel);
    assert_result(actor_result(other), RELOCK_CANCELLED);
    assert_true(probe_wait_no_key(f->probe, tokens, SOON_MS));
    beat.last = beat_now(&beat) + 1;
    assert_true(wait_until(has_grown, &beat, SOON_MS));
    assert_int_equal(probe_int(f->probe, "HGET %s %s", w.hash, field), at_us);
    relock_cancel_fire(how[0].cancel);
    assert_result(actor_result(w.actor), RELOCK_CANCELLED);
    assert_result(actor_unlock(other, plain), RELOCK_OK);
    end_waiting(f, &w);
    for (int i = 0; i < 2; i++)
        relock_cancel_free(how[i].cancel);
}

/* Of some waits, since the first beat may have been missed. */
static unsigned long soonest_published(struct fixture *f, struct relock_client *client)
{
    unsigned long soonest_ms = published_after(f, client);

    for (int i = 1; i < ATTEMPTS; i++) {
        unsigned long after_ms = published_after(f, client);

        soonest_ms = after_ms < soonest_ms ? after_ms : soonest_ms;
    }
    return soonest_ms;
}

static void play_deadlock(struct fixture *f, struct relock_client *const clients[2])
{
    struct ring ring = ring_of(f, clients, 2);

    ring_close(&ring);
    (void)ring_assert_one_is_refused(&ring);
}

/* Both clients know of it, the victim and the other one. */
static void after_a_deadlock_waits_are_published_earlier(void **state)
{
    struct fixture *f = *state;
    struct relock_client *clients[] = {ring_client(f, 0, 0), ring_client(f, 1, 0)};

    assert_true(published_after(f, clients[0]) >= RELAXED_MS);
    play_deadlock(f, clients);
    assert_true(soonest_published(f, clients[0]) < RELAXED_MS);
    assert_true(soonest_published(f, clients[1]) < RELAXED_MS);
}

static void a_deadlock_changes_no_time_that_the_program_has_set(void **state)
{
    struct fixture *f = *state;
    struct relock_client *clients[] = {ring_client(f, 0, DEADLOCK_MS),
                                       ring_client(f, 1, DEADLOCK_MS)};

    play_deadlock(f, clients);
    assert_true(published_after(f, clients[0]) >= DEADLOCK_MS);
    assert_true(published_after(f, clients[1]) >= DEADLOCK_MS);
}

/* ---- rights ---------------------------------------------------------------------------------- */

/* Without the right to the key, and one line in the log. */
static void a_user_without_the_right_is_told_once(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client;
    struct relock_lock *mine, *theirs;

    rights_give(f, "reentrant", "~relock_waits:");
    client = rights_client(f, slow_ms(NEVER_MS), 0);
    mine = fixture_lock(f, client, "orders:1");
    theirs = fixture_lock(f, client, "orders:2");
    assert_true(peer_lock(f->probe, "orders:2", PEER, PEER_LEASE_MS));
    assert_result(relock_lock(mine), RELOCK_OK);
    for (int i = 0; i < 2; i++)
        assert_result(relock_timedlock(theirs, (int64_t)slow_ms(1500)), RELOCK_TIMEOUT);
    assert_true(log_wait_n(f->log, "waits are not recorded, so deadlocks with other processes", 1,
                           SOON_MS));
    assert_int_equal(log_count(f->log, "waits are not recorded"), 1);
    assert_result(relock_unlock(mine), RELOCK_OK);
    assert_true(peer_unlock(f->probe, "orders:2", PEER));
    assert_true(wait_for_no_keys(f->probe));
}

/* It tries again after a while, also if all waits had ended by then. */
static void a_user_who_gets_the_right_later_uses_it(void **state)
{
    struct fixture *f = *state;
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    struct relock_lock *mine, *theirs;
    struct relock_client *client;
    struct actor *actor = actor_start();
    char hash[64];

    rights_give(f, "reentrant", "~relock_waits:");
    client = rights_client(f, slow_ms(NEVER_MS), 0);
    mine = fixture_lock(f, client, "orders:1");
    theirs = fixture_lock(f, client, "orders:2");
    snprintf(hash, sizeof(hash), "relock_waits:{%s}", relock_client_id(client));
    assert_result(relock_cancel_new(&how.cancel), RELOCK_OK);
    assert_true(peer_lock(f->probe, "orders:2", PEER, PEER_LEASE_MS));
    assert_result(actor_lock(actor, mine), RELOCK_OK);
    assert_result(actor_timedlock(actor, theirs, (int64_t)slow_ms(1500)), RELOCK_TIMEOUT);
    assert_true(log_wait(f->log, "waits are not recorded", SOON_MS));
    let_pass(2 * BEAT_MS); /* it would have sent a hash that is empty now */
    assert_int_equal(probe_int(f->probe, "ACL SETUSER " RIGHTS_USER " ~relock_waits:{*") >= 0, 1);
    actor_begin_acquire(actor, theirs, &how);
    assert_true(probe_wait_key(f->probe, hash));
    relock_cancel_fire(how.cancel);
    assert_result(actor_result(actor), RELOCK_CANCELLED);
    assert_result(actor_unlock(actor, mine), RELOCK_OK);
    assert_true(peer_unlock(f->probe, "orders:2", PEER));
    assert_true(wait_for_no_keys(f->probe));
    relock_cancel_free(how.cancel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_hash_shows_what_the_owner_of_a_hold_waits_for),
        SERVER_TEST(a_hash_goes_with_a_cancelled_wait),
        SERVER_TEST(a_hash_goes_with_its_client),
        SERVER_TEST(a_forked_child_leaves_the_hash_alone),
        SERVER_TEST(a_wait_of_an_owner_without_locks_is_not_published),
        SERVER_TEST(a_hash_that_nobody_confirms_proves_nothing),
        SERVER_TEST(a_look_that_does_not_ask_keeps_who_asks),
        SERVER_TEST(the_hash_of_a_dead_victim_hides_the_next_one),
        SERVER_TEST(a_proof_that_a_dead_client_holds_up_costs_little),
        SERVER_TEST(a_client_that_is_asked_sends_its_hash_at_once),
        SERVER_TEST(the_end_of_another_wait_changes_no_time),
        SERVER_TEST(after_a_deadlock_waits_are_published_earlier),
        SERVER_TEST(a_deadlock_changes_no_time_that_the_program_has_set),
        SERVER_TEST(a_user_without_the_right_is_told_once),
        SERVER_TEST(a_user_who_gets_the_right_later_uses_it),
    };

    return SERVER_TESTS_RUN(tests);
}
