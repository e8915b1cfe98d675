/* Out of memory: making and freeing clients, handles and cancels. */
#include "trial.h"

#include <stdio.h>
#include <string.h>

/* A resolver that lacks the memory to read /etc/hosts asks other services instead, which may know
 * no such name, or not answer. Of our own memory, the other cases of a client tell. */
static int new_client_by_name(struct trial *trial)
{
    int r = trial_new_client(trial);

    return r == RELOCK_E_CONN && alloc_refused() > 0 ? RELOCK_E_NOMEM : r;
}

static void a_client(void **state, const struct relock_options *wanted, bool of_no_use)
{
    struct scene scene = {
        .whose = ALLOC_ALL,
        .options = *wanted,
        .makes_client = true,
        .ends_client = of_no_use,
        .act = strstr(wanted->url ? wanted->url : "", "localhost") ? new_client_by_name
                                                                   : trial_new_client,
    };

    trial_play(state, &scene);
}

static void a_client_that_cannot_be_made_leaves_nothing(void **state)
{
    a_client(state, &(struct relock_options){0}, false);
}

static void a_client_with_credentials_that_cannot_be_made_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    char url[64];

    snprintf(url, sizeof(url), "redis://" USER ":" PASSWORD "@127.0.0.1:%d/3", f->server->port);
    a_client(state, &(struct relock_options){.url = url, .client_name = "shop"}, true);
}

static void a_client_with_a_host_name_that_cannot_be_made_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    char url[64];

    snprintf(url, sizeof(url), "redis://localhost:%d", f->server->port);
    a_client(state, &(struct relock_options){.url = url, .user = USER, .password = PASSWORD},
             false);
}

static void a_lazy_client_that_cannot_be_made_leaves_nothing(void **state)
{
    a_client(state, &(struct relock_options){.flags = RELOCK_LAZY}, false);
    a_client(state,
             &(struct relock_options){.flags = RELOCK_LAZY, .url = "unix:///nowhere/redis.sock"},
             true);
}

/* ---- handles ------------------------------------------------------------------------------- */

static int new_lock(struct trial *trial)
{
    return relock_lock_new(trial->client, "parcels", &trial->other);
}

static void free_other(struct trial *trial, int result)
{
    if (result == RELOCK_OK)
        trial->other = relock_lock_free(trial->other);
}

static void a_handle_that_cannot_be_made_leaves_nothing(void **state)
{
    trial_play(state, &(struct scene){
                          .whose = ALLOC_MINE,
                          .act = new_lock,
                          .after = free_other,
                      });
}

/* The table of names grows with these. */
#define N_NAMES 600

/* Refuses each request once, and returns how many there were. */
static size_t make_one_more(struct relock_client *client, struct relock_lock **lock, unsigned i)
{
    size_t nth = 0;
    bool is_refused;
    char name[32];
    int r;

    snprintf(name, sizeof(name), "parcel %u", i);
    do {
        alloc_fail(ALLOC_MINE, ++nth, 1);
        r = relock_lock_new(client, name, lock);
        is_refused = alloc_stop() > 0;
        assert_true(r == RELOCK_OK || (is_refused && r == RELOCK_E_NOMEM));
    } while (r < 0);
    return is_refused ? nth : nth - 1;
}

static void names_are_found_again_though_their_table_could_not_grow(void **state)
{
    static struct relock_lock *locks[N_NAMES], *again;
    struct relock_options options = trial_options(&(struct trial){.f = *state}, &(struct scene){0});
    struct alloc_mark before = alloc_mark();
    struct relock_client *client;
    size_t least = (size_t)-1, most = 0;

    assert_result(relock_client_new(&options, &client), RELOCK_OK);
    for (unsigned i = 0; i < N_NAMES; i++) {
        size_t n = make_one_more(client, &locks[i], i);

        least = n < least ? n : least;
        most = n > most ? n : most;
    }
    assert_int_equal(least, 1); /* the lock with its handle */
    assert_int_equal(most, 2);  /* and the table */
    assert_result(relock_lock(locks[0]), RELOCK_OK);
    assert_result(relock_lock_new(client, "parcel 0", &again), RELOCK_OK);
    assert_true(relock_is_mine(again));
    assert_result(relock_unlock(again), RELOCK_OK);
    assert_null(relock_lock_free(again));
    for (unsigned i = 0; i < N_NAMES; i++)
        assert_null(relock_lock_free(locks[i]));
    assert_null(relock_client_free(client));
    assert_true(alloc_nothing_since(&before));
}

static int new_cancel(struct trial *trial)
{
    return relock_cancel_new(&trial->cancel);
}

static void free_cancel(struct trial *trial, int result)
{
    if (result == RELOCK_OK)
        trial->cancel = relock_cancel_free(trial->cancel);
}

static void a_cancel_that_cannot_be_made_leaves_nothing(void **state)
{
    trial_play(state, &(struct scene){
                          .whose = ALLOC_MINE,
                          .act = new_cancel,
                          .after = free_cancel,
                      });
}

/* ---- what asks for none -------------------------------------------------------------------- */

static void hold(struct trial *trial)
{
    assert_result(relock_cancel_new(&trial->cancel), RELOCK_OK);
    assert_result(relock_lock_new(trial->client, "parcels", &trial->other), RELOCK_OK);
    assert_result(relock_lock(trial->lock), RELOCK_OK);
}

/* All calls that answer from memory, or that cannot fail. */
static int ask_memory(struct trial *trial)
{
    struct relock_grant grant;
    struct relock_stats stats;
    int r = relock_check(trial->lock, 0, &grant);

    relock_cancel_fire(trial->cancel);
    trial->cancel = relock_cancel_free(trial->cancel);
    trial->other = relock_lock_free(trial->other);
    if (r == RELOCK_OK)
        r = relock_client_stats(trial->client, &stats, sizeof(stats));
    if (!relock_is_mine(trial->lock) || relock_valid_ms(trial->lock) == 0 ||
        relock_owner_new() == 0 || !*relock_lock_name(trial->lock) ||
        !*relock_client_id(trial->client) || !*relock_strerror(r))
        r = RELOCK_LOST;
    relock_client_shutdown(trial->client);
    return r;
}

static void queries_of_local_state_allocate_nothing(void **state)
{
    trial_play_without(state, &(struct scene){
                                  .whose = ALLOC_MINE,
                                  .ends_client = true,
                                  .before = hold,
                                  .act = ask_memory,
                                  .after = trial_unlock_in_any_case,
                              });
}

static int free_client(struct trial *trial)
{
    trial->f->clients[0] = NULL;
    trial->client = relock_client_free(trial->client);
    return RELOCK_OK;
}

/* Memory stays refused: Redis is not told in time, and the lease ends. */
static void a_freed_client_releases_its_holds(void **state)
{
    trial_play(state, &(struct scene){
                          .whose = ALLOC_ALL,
                          .options = {.command_timeout_ms = outlast_ms(1100)},
                          .ends_client = true,
                          .before = trial_hold,
                          .act = free_client,
                      });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TRIAL_TEST(a_client_that_cannot_be_made_leaves_nothing),
        TRIAL_TEST(a_client_with_credentials_that_cannot_be_made_leaves_nothing),
        TRIAL_TEST(a_client_with_a_host_name_that_cannot_be_made_leaves_nothing),
        TRIAL_TEST(a_lazy_client_that_cannot_be_made_leaves_nothing),
        TRIAL_TEST(a_handle_that_cannot_be_made_leaves_nothing),
        TRIAL_TEST(names_are_found_again_though_their_table_could_not_grow),
        TRIAL_TEST(a_cancel_that_cannot_be_made_leaves_nothing),
        TRIAL_TEST(queries_of_local_state_allocate_nothing),
        TRIAL_TEST(a_freed_client_releases_its_holds),
    };

    return TRIAL_TESTS_RUN(tests);
}
