/* relock_locks() when a script that looks at many locks does not find all of them, or is refused.
 */
#include "faults.h"

#include <stdio.h>

#define N_LOCKS 10
#define HOLDER "a7c3b6f0-0000-4000-8000-000000000001:1"

struct list {
    struct relock_client *client;
    unsigned n;
    uint64_t n_out; /* permits */
};

static bool count_lock(const struct relock_lock_info *info, void *arg)
{
    struct list *list = arg;

    list->n += info->holder.n_holders == 1;
    list->n_out += info->n_out;
    return true;
}

static int find_all(void *arg)
{
    struct list *list = arg;

    return relock_locks(list->client, "*", count_lock, list);
}

static void lock_all(struct faults *t)
{
    char name[32];

    for (int i = 0; i < N_LOCKS; i++) {
        (void)snprintf(name, sizeof(name), "orders:%d", i);
        assert_true(peer_lock(t->f->probe, name, HOLDER, LONG_MS));
    }
}

static void unlock_all(struct faults *t)
{
    char name[32];

    for (int i = 0; i < N_LOCKS; i++) {
        (void)snprintf(name, sizeof(name), "orders:%d", i);
        assert_true(peer_unlock(t->f->probe, name, HOLDER));
    }
}

/* A proxy may send the script to the server of its first key, which has none of the others. */
static void locks_that_a_script_of_many_did_not_find_are_asked_for_alone(void **state)
{
    struct faults *t = *state;
    struct list list = {.client = faults_client(t, NULL)};
    struct actor *actor = actor_start();
    struct proxy_rule *many = proxy_next(t->proxy, PROXY_HOLD, "look 10 ");
    struct proxy_rule *alone = proxy_next(t->proxy, PROXY_HOLD, "look 1 orders:7");

    lock_all(t);
    actor_begin(actor, find_all, &list);
    assert_true(proxy_met(many, 1));
    assert_int_equal(probe_int(t->f->probe, "RENAMENX orders:7 elsewhere"), 1);
    proxy_let_go(many);
    assert_true(proxy_met(alone, 1));
    assert_int_equal(probe_int(t->f->probe, "RENAMENX elsewhere orders:7"), 1);
    proxy_let_go(alone);
    assert_result(actor_result(actor), RELOCK_OK);
    assert_int_equal(list.n, N_LOCKS);
    assert_int_equal(proxy_count(t->proxy, "look 1 "), 1);
    unlock_all(t);
}

#define N_STRINGS 5 /* that look like plain locks, and are looked at after hashes */

/* A script of somebody else runs for long. The search does not wait for its end lock by lock. What
 * it has found before is reported, without a wait for ages. */
static void a_server_that_stays_busy_ends_the_search_after_one_timeout(void **state)
{
    struct faults *t = *state;
    const struct relock_options options = {.command_timeout_ms = slow_ms(1500)};
    struct list list = {.client = faults_client(t, &options)};
    struct actor *actor = actor_start();
    struct proxy_rule *many = proxy_next(t->proxy, PROXY_HOLD, "look 5 ");
    char words[32];
    int n_asked = 0;

    lock_all(t);
    for (int i = 0; i < N_STRINGS; i++)
        probe_text(t->f->probe, "SET goods:%d 8f14e45fceea167a5a36dedd4bea2543 PX %d", i, LONG_MS);
    actor_begin(actor, find_all, &list);
    assert_true(proxy_met(many, 1));
    faults_be_busy(t);
    proxy_let_go(many);
    assert_result(actor_result(actor), RELOCK_E_SERVER);
    assert_true(log_wait(t->f->log, "BUSY", SOON_MS));
    faults_be_busy_no_more(t);
    for (int i = 0; i < N_STRINGS; i++) {
        (void)snprintf(words, sizeof(words), "look 1 goods:%d", i);
        n_asked += proxy_count(t->proxy, words) > 0;
        (void)snprintf(words, sizeof(words), "goods:%d", i);
        assert_int_equal(probe_int(t->f->probe, "DEL %s", words), 1);
    }
    assert_int_equal(n_asked, 1);
    assert_int_equal(list.n, N_LOCKS);
    assert_int_equal(proxy_count(t->proxy, "since_read"), 0);
    unlock_all(t);
}

#define N_PERMITS 70 /* whose ages take a script for 64, and one for 6 */

static void ages_that_a_busy_server_refuses_to_tell_stay_unknown_after_one_timeout(void **state)
{
    struct faults *t = *state;
    const struct relock_options options = {.command_timeout_ms = slow_ms(1500)};
    const struct relock_how how = {.permits = 1, .lease_ms = LONG_MS};
    struct list list = {.client = faults_client(t, &options)};
    struct relock_lock *lock =
        fixture_lock_of(t->f, fixture_client(t->f, NULL), "jobs", relock_semaphore_new);
    struct actor *actor = actor_start();
    struct proxy_rule *ages = proxy_next(t->proxy, PROXY_HOLD, "since_read 64 ");

    assert_result(relock_semaphore_set(lock, N_PERMITS), RELOCK_OK);
    for (int i = 0; i < N_PERMITS; i++)
        assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    actor_begin(actor, find_all, &list);
    assert_true(proxy_met(ages, 1));
    faults_be_busy(t);
    proxy_let_go(ages);
    assert_result(actor_result(actor), RELOCK_OK);
    faults_be_busy_no_more(t);
    assert_int_equal(list.n_out, N_PERMITS);
    assert_int_equal(proxy_count(t->proxy, "since_read 6 "), 0);
    for (int i = 0; i < N_PERMITS; i++)
        assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(probe_int(t->f->probe, "DEL jobs"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(locks_that_a_script_of_many_did_not_find_are_asked_for_alone),
        FAULT_TEST(a_server_that_stays_busy_ends_the_search_after_one_timeout),
        FAULT_TEST(ages_that_a_busy_server_refuses_to_tell_stay_unknown_after_one_timeout),
    };

    return FAULT_TESTS_RUN(tests);
}
