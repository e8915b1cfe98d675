/*
 * Without memory: owners that wait for each other.
 *
 * An owner of the trial's client holds "orders" and wants "books"; the other owner holds "books"
 * and wants "orders".
 */
#include "trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_MS 1   /* the other owner's wait is published so soon: it is the older one */
#define SECOND_MS 30 /* `deadlock_ms` of the trial's client */

static struct {
    struct relock_client *client; /* of the other owner */
    struct relock_lock *orders, *books, *wanted;
    struct relock_cancel *cancel;
    struct actor *waiter;
    uint64_t owner; /* of the waiter */
} scene;

static struct relock_lock *make(struct trial *trial, struct relock_client *client, const char *name)
{
    return fixture_lock_of(trial->f, client, name, kind_now()->constructor);
}

/* The other owner is of `client`, and waits. */
static void set(struct trial *trial, struct relock_client *client)
{
    scene.client = client;
    scene.orders = make(trial, client, "orders");
    scene.books = make(trial, client, "books");
    scene.wanted = make(trial, trial->client, "books");
    scene.owner = relock_owner_new();
    assert_result(relock_cancel_new(&scene.cancel), RELOCK_OK);
    assert_result(relock_acquire(trial->lock, &(struct relock_how){.owner = scene.owner}, NULL),
                  RELOCK_OK);
    assert_result(actor_lock(trial->actor, scene.books), RELOCK_OK);
    actor_begin_lock(trial->actor, scene.orders);
    assert_true(wait_for_waiters(client, 1));
}

/* The waiter always has memory. */
static void another_client_waits(struct trial *trial)
{
    char hash[64];

    set(trial, trial_other_client(trial, &(struct relock_options){.deadlock_ms = FIRST_MS}));
    snprintf(hash, sizeof(hash), "relock_waits:{%s}", relock_client_id(scene.client));
    assert_true(probe_wait_key(trial->f->probe, hash));
    scene.waiter = actor_start();
    trial_spare(scene.waiter);
}

static bool has_ended(void *arg)
{
    (void)arg;
    return !actor_is_busy(scene.waiter);
}

/* Its wait is published last, so it is the victim. */
static int wait_for_each_other(struct trial *trial)
{
    static struct relock_how how; /* for the actor */

    how = (struct relock_how){
        .owner = scene.owner, .cancel = scene.cancel, .wait_ms = RELOCK_FOREVER};
    actor_begin_acquire(scene.waiter, scene.wanted, &how);
    if (!trial_wait(trial, has_ended, NULL))
        return RELOCK_TIMEOUT;
    return RELOCK_E_DEADLOCK;
}

static int take_result(struct trial *trial)
{
    int r;

    if (trial->for_good)
        relock_cancel_fire(scene.cancel);
    r = actor_result(scene.waiter);
    actor_end(scene.waiter);
    return trial->for_good && r == RELOCK_CANCELLED ? RELOCK_E_DEADLOCK : r;
}

/* The other owner goes on. */
static void end(struct trial *trial)
{
    assert_result(relock_release(trial->lock, scene.owner), RELOCK_OK);
    assert_result(actor_result(trial->actor), RELOCK_OK);
    assert_result(actor_unlock(trial->actor, scene.orders), RELOCK_OK);
    assert_result(actor_unlock(trial->actor, scene.books), RELOCK_OK);
    scene.cancel = relock_cancel_free(scene.cancel);
    fixture_free_lock(trial->f, scene.wanted);
    fixture_free_lock(trial->f, scene.orders);
    fixture_free_lock(trial->f, scene.books);
}

static void victim_of_two_clients(struct trial *trial, int result)
{
    assert_result(result, RELOCK_E_DEADLOCK);
    assert_result(take_result(trial), RELOCK_E_DEADLOCK);
    end(trial);
    fixture_free_client(trial->f, scene.client);
}

static void a_cycle_of_two_clients_is_broken(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_OTHERS,
                                      .options = {.deadlock_ms = SECOND_MS},
                                      .answer = RELOCK_E_DEADLOCK,
                                      .before = another_client_waits,
                                      .act = wait_for_each_other,
                                      .after = victim_of_two_clients});
}

/* ---- in one client ------------------------------------------------------------------------- */

static void an_owner_of_the_client_waits(struct trial *trial)
{
    set(trial, trial->client);
}

static int close_the_cycle(struct trial *trial)
{
    struct relock_how how = {.owner = scene.owner, .wait_ms = RELOCK_FOREVER};

    (void)trial;
    return relock_acquire(scene.wanted, &how, NULL);
}

static void victim_of_a_client(struct trial *trial, int result)
{
    assert_true(result == RELOCK_E_DEADLOCK || result == RELOCK_E_NOMEM);
    end(trial);
}

static void a_cycle_of_one_client_is_refused(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                      .answer = RELOCK_E_DEADLOCK,
                                      .before = an_owner_of_the_client_waits,
                                      .act = close_the_cycle,
                                      .after = victim_of_a_client});
}

/* ---- what is published --------------------------------------------------------------------- */

#define WITHOUT_MS 1500 /* a client that waits looks each second for which owners do */
#define BEATS 8         /* of 250 ms: it has looked once more */

struct published {
    struct probe *probe;
    char hash[64], hold[32];
    long long beat;
};

static long long published_at(const struct published *p)
{
    return strtoll(probe_text(p->probe, "HGET %s %s", p->hash, p->hold), NULL, 10);
}

static bool has_beaten(void *arg)
{
    const struct published *p = arg;

    return probe_int(p->probe, "HGET %s beat", p->hash) >= p->beat + BEATS;
}

/* As a new one it would be younger than others, and their victim. */
static void a_wait_is_not_published_anew_for_lack_of_memory(void **state)
{
    struct fixture *f = *state;
    struct trial trial = {.f = f};
    struct relock_client *client = trial_other_client(
        &trial, &(struct relock_options){.deadlock_ms = FIRST_MS,
                                         .watchdog_timeout_ms = outlast_ms(SOON_MS),
                                         .command_timeout_ms = outlast_ms(SOON_MS)});
    struct relock_lock *orders = fixture_lock(f, client, "orders");
    struct relock_lock *books = fixture_lock(f, client, "books");
    struct published p = {.probe = f->probe};
    struct actor *actor = actor_start();
    long long at_us;

    trial_spare(actor);
    assert_true(peer_lock(f->probe, "books", PEER, LONG_MS));
    assert_result(actor_lock(actor, orders), RELOCK_OK);
    snprintf(p.hash, sizeof(p.hash), "relock_waits:{%s}", relock_client_id(client));
    snprintf(p.hold, sizeof(p.hold), "%s",
             probe_only_field(f->probe, "orders") + strlen(relock_client_id(client)) + 1);
    actor_begin_lock(actor, books);
    assert_true(probe_wait_key(f->probe, p.hash));
    at_us = published_at(&p);
    assert_true(at_us > 0);
    alloc_fail(ALLOC_OTHERS, 1, ALLOC_FROM_THEN_ON);
    let_pass(WITHOUT_MS);
    assert_true(alloc_stop() > 0);
    p.beat = probe_int(f->probe, "HGET %s beat", p.hash);
    assert_true(wait_until(has_beaten, &p, SOON_MS));
    assert_int_equal(published_at(&p), at_us);
    assert_true(peer_unlock(f->probe, "books", PEER));
    assert_result(actor_result(actor), RELOCK_OK);
    assert_result(actor_unlock(actor, books), RELOCK_OK);
    assert_result(actor_unlock(actor, orders), RELOCK_OK);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TRIAL_TEST(a_cycle_of_one_client_is_refused),
        TRIAL_TEST(a_cycle_of_two_clients_is_broken),
        TRIAL_TEST_OF(a_cycle_of_two_clients_is_broken, plain),
        TRIAL_TEST(a_wait_is_not_published_anew_for_lack_of_memory),
    };

    trial_refuse_some(argc, argv, 17);
    return TRIAL_TESTS_RUN(tests);
}
