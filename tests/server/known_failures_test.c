/*
 * Known failures: each case here fails, for the reason that stands over it, until its cause is
 * gone.
 *
 * Meson expects that and runs each case for itself, named by the argument; one that passes is
 * reported, and belongs into the tests of its subject then. Only the assertion that shows the
 * defect counts as the expected failure: whatever else ends a case ends the program with 99, which
 * Meson never expects.
 */
#include "support/multi.h"
#include "support/red.h"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_SERVERS 3

#define EXIT_KNOWN 40 /* of the process that runs the case; anybody's 1 could be a sanitizer's */
#define EXIT_WRONG 99

/* So much longer than before is a lease that was renewed. */
#define RENEWED_MS 100

static bool is_known; /* the assertion that failed is the one that shows the defect */

#define assert_mended(condition) \
    do {                         \
        is_known = !(condition); \
        assert_true(condition);  \
    } while (0)

/* ---- what stands in Redis ------------------------------------------------------------------ */

static bool lacks_quorum(void *arg)
{
    return red_n_keys(arg) <= N_SERVERS / 2;
}

struct lease {
    struct probe *probe;
    const char *key;
    long long pttl_ms;
    unsigned n_renewals; /* seen */
    unsigned enough;
};

static bool is_gone_or_renewed(void *arg)
{
    struct lease *lease = arg;
    long long pttl_ms = probe_pttl(lease->probe, lease->key);

    lease->n_renewals += pttl_ms > lease->pttl_ms + RENEWED_MS;
    lease->pttl_ms = pttl_ms;
    return pttl_ms == -2 || lease->n_renewals >= lease->enough;
}

/* Whether it ends, with fewer renewals than that. */
static bool ends(struct probe *probe, const char *key, unsigned n_renewals)
{
    struct lease lease = {probe, key, probe_pttl(probe, key), 0, n_renewals};

    assert_true(wait_until(is_gone_or_renewed, &lease, SOON_MS));
    return lease.pttl_ms == -2;
}

/* ---- a thread that stops inside a call ----------------------------------------------------- */

/* A call on a client puts thread cancellation off, and asks then what it was. */
static _Thread_local int stops_at; /* that call of this thread; 0: at none */
static sem_t has_stopped, may_go_on;

int pthread_setcancelstate(int state, int *before)
{
    int (*next)(int, int *) = NULL;

    *(void **)&next = dlsym(RTLD_NEXT, "pthread_setcancelstate");
    if (before && stops_at > 0 && --stops_at == 0) {
        sem_post(&has_stopped);
        while (sem_wait(&may_go_on) != 0)
            continue;
    }
    return next(state, before);
}

static bool has_stopped_or_ended(void *actor)
{
    return sem_trywait(&has_stopped) == 0 || !actor_is_busy(actor);
}

/* ---- (a) ----------------------------------------------------------------------------------- */

/* collect.c leaves it to ask.c to keep what was taken with a lease, and red locks do not do it. */
static void a_red_member_with_a_lease_is_kept_while_others_are_waited_for(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, NULL);
    struct relock_lock *b = fixture_lock(s->f, red.clients[0], "z");
    struct relock_lock *theirs = fixture_lock(s->f, servers_client(s, 0, NULL), "z");
    struct relock_lock *multi = fixture_multi(s->f, red.lock, b, NULL);
    struct relock_how how = {.wait_ms = RELOCK_FOREVER, .lease_ms = outlast_ms(2000)};
    struct actor *actor = actor_start();
    bool is_kept;

    red_settle(s, &red, s->n);
    assert_result(relock_lock(theirs), RELOCK_OK);
    actor_begin_acquire(actor, multi, &how);
    assert_true(red_wait_keys(s, s->n));
    is_kept = !wait_until(lacks_quorum, s, 4000);
    assert_true(actor_is_busy(actor));
    assert_result(relock_unlock(theirs), RELOCK_OK);
    assert_result(actor_result(actor), RELOCK_OK);
    assert_result(actor_unlock(actor, multi), RELOCK_OK);
    assert_mended(is_kept);
}

/* ---- (b) ----------------------------------------------------------------------------------- */

static bool is_told_of(struct losses *losses, const char *name)
{
    for (size_t i = 0; i < losses_count(losses); i++)
        if (strcmp(losses_get(losses, i).name, name) == 0)
            return true;
    return false;
}

static bool is_told_of_other(void *losses)
{
    return is_told_of(losses, "other");
}

static bool is_lost_by_main(void *lock)
{
    return relock_extend(lock, 0, 60000) == RELOCK_LOST;
}

/* nest.c returns before it makes a red hold its owner's own. */
static void a_level_of_a_red_member_that_outlives_the_whole_is_told_of(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, NULL);
    struct relock_lock *other = fixture_lock(s->f, red.clients[0], "other");
    struct relock_lock *multi = fixture_multi(s->f, red.lock, NULL);

    red_settle(s, &red, s->n);
    assert_result(relock_lock(multi), RELOCK_OK);
    assert_result(relock_lock(red.lock), RELOCK_OK);
    assert_result(relock_lock(other), RELOCK_OK);
    assert_result(relock_unlock(multi), RELOCK_OK);
    for (size_t i = 0; i < s->n; i++)
        probe_int(s->probe[i], "DEL " RED_NAME);
    assert_true(wait_until(is_lost_by_main, red.lock, SOON_MS));
    probe_int(s->probe[0], "DEL other");
    assert_true(wait_until(is_lost_by_main, other, SOON_MS));
    assert_true(wait_until(is_told_of_other, s->f->losses, SOON_MS)); /* losses come in order */
    assert_result(relock_unlock(red.lock), RELOCK_LOST);
    assert_result(relock_unlock(other), RELOCK_LOST);
    assert_mended(is_told_of(s->f->losses, RED_NAME));
}

/* ---- (c) ----------------------------------------------------------------------------------- */

static const char *const names[N_SERVERS] = {"a", "b", "c"};

static bool have_all(void *arg)
{
    struct servers *s = arg;
    unsigned n = 0;

    for (size_t i = 0; i < N_SERVERS; i++)
        n += probe_int(s->probe[i], "EXISTS %s", names[i]) == 1;
    return n == N_SERVERS;
}

/* A fixed lease asks nobody again who was late: only who is connected is not. */
static void acquire_on_all(struct servers *s, struct actor *actor, struct relock_lock *lock,
                           const struct relock_how *how)
{
    uint64_t deadline_ms = deadline_in(SOON_MS);

    for (;;) {
        int r = actor_acquire(actor, lock, how);

        if (r == RELOCK_OK && wait_until(have_all, s, 100))
            return;
        assert_true(now_ms() < deadline_ms);
        if (r == RELOCK_OK)
            (void)actor_unlock(actor, lock);
        else
            assert_result(r, RELOCK_E_CONN);
    }
}

static int nest_and_stop(void *lock)
{
    int r;

    stops_at = 1 + N_SERVERS; /* on the whole's client, then on each vote's: before the last */
    r = relock_trylock(lock);
    stops_at = 0;
    return r;
}

struct held {
    struct relock_lock *lock;
    uint64_t owner;
};

static bool is_lost(void *arg)
{
    const struct held *held = arg;

    return relock_check(held->lock, held->owner, NULL) == RELOCK_LOST;
}

/*
 * redlock.c, keep_votes: a loss that is told meanwhile leaves the votes to whoever is busy with
 * them, and that thread does not look. The votes of "a" and "b" are renewed already when they are
 * deleted; that of "c" is what is left.
 */
static void votes_end_with_a_quorum_that_is_lost_while_a_level_asks_for_renewal(void **state)
{
    struct servers *s = *state;
    struct relock_how how = {.lease_ms = outlast_ms(4000)};
    struct relock_lock *members[N_SERVERS], *lock;
    struct actor *actor = actor_start();
    struct held held;
    bool ended;

    for (size_t i = 0; i < N_SERVERS; i++)
        members[i] = fixture_lock(s->f, servers_client(s, i, NULL), names[i]);
    lock = red_lock_of(s->f, members, N_SERVERS);
    acquire_on_all(s, actor, lock, &how);
    held = (struct held){lock, actor_grant(actor).owner};
    actor_begin(actor, nest_and_stop, lock);
    assert_true(wait_until(has_stopped_or_ended, actor, SOON_MS));
    probe_int(s->probe[0], "DEL a");
    probe_int(s->probe[1], "DEL b");
    assert_true(wait_until(is_lost, &held, SOON_MS));
    (void)losses_wait(s->f->losses, 1, 2000); /* unless it is told when that thread is done */
    sem_post(&may_go_on);
    (void)actor_result(actor);
    ended = ends(s->probe[2], "c", 2); /* one may have been under way */
    assert_result(actor_unlock(actor, lock), RELOCK_LOST);
    (void)actor_unlock(actor, lock); /* another level, if the nesting came first */
    assert_mended(ended);
}

/* ---- (d) ----------------------------------------------------------------------------------- */

/* collect.c, give_back: the member is kept for the call, and nobody says that it is over. */
static void a_level_with_a_lease_outlives_a_call_that_gave_the_member_back(void **state)
{
    struct servers *s = *state;
    struct relock_client *client = servers_client(s, 0, NULL);
    struct relock_lock *a = fixture_lock(s->f, client, "a");
    struct relock_lock *b = fixture_lock(s->f, client, "b");
    struct relock_lock *theirs = fixture_lock(s->f, servers_client(s, 0, NULL), "b");
    struct relock_lock *multi = fixture_multi(s->f, a, b, NULL);
    struct relock_cancel *cancel;
    struct relock_how how = {.lease_ms = outlast_ms(2000), .owner = relock_owner_new()};
    struct relock_how waits = how;
    struct actor *actor = actor_start();
    bool ended;

    assert_result(relock_cancel_new(&cancel), RELOCK_OK);
    waits.wait_ms = RELOCK_FOREVER;
    waits.cancel = cancel;
    assert_result(relock_lock(theirs), RELOCK_OK);
    actor_begin_acquire(actor, multi, &waits);
    assert_true(wait_behind_a(client, client));
    assert_result(relock_acquire(a, &how, NULL), RELOCK_OK);
    relock_cancel_fire(cancel);
    assert_result(actor_result(actor), RELOCK_CANCELLED);
    cancel = relock_cancel_free(cancel);
    ended = ends(s->probe[0], "a", 2); /* one may have been under way */
    assert_result(relock_release(a, how.owner), ended ? RELOCK_LOST : RELOCK_OK);
    assert_result(relock_unlock(theirs), RELOCK_OK);
    assert_mended(ended);
}

/* ---- the program --------------------------------------------------------------------------- */

static int start(void **state)
{
    return servers_start_with(state, N_SERVERS, NULL);
}

static int run(void)
{
    const struct CMUnitTest tests[] = {
        SERVERS_TEST(a_red_member_with_a_lease_is_kept_while_others_are_waited_for),
        SERVERS_TEST(a_level_of_a_red_member_that_outlives_the_whole_is_told_of),
        SERVERS_TEST(votes_end_with_a_quorum_that_is_lost_while_a_level_asks_for_renewal),
        SERVERS_TEST(a_level_with_a_lease_outlives_a_call_that_gave_the_member_back),
    };
    int n_failed;

    sem_init(&has_stopped, 0, 0);
    sem_init(&may_go_on, 0, 0);
    n_failed = cmocka_run_group_tests(tests, start, servers_stop);
    return n_failed == 1 && is_known ? EXIT_KNOWN : n_failed;
}

/* In a process of its own: one that crashes has not failed as expected. */
int main(int argc, char **argv)
{
    int status = 0;
    pid_t child;

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    child = fork();
    if (child == 0)
        exit(run());
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return EXIT_WRONG;
    switch (WEXITSTATUS(status)) {
    case 0:
    case 77:
        return WEXITSTATUS(status);
    case EXIT_KNOWN:
        return 1;
    default:
        return EXIT_WRONG;
    }
}
