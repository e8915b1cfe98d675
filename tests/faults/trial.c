#include "trial.h"

#include <errno.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define ERRNO 4711 /* a value that no function sets */
#define SOME_REFUSALS 3
#define CONNECT_MS 3000 /* outlasts a stop of the machine, and some calls wait for its end */

/* Describes a failed play. */
static struct {
    bool under_way;
    size_t nth, n;
} now;

static atomic_uint n_lines;
static size_t one_of = 1; /* see trial_refuse_some */

static void count_line(int level, const char *text, void *arg)
{
    (void)level;
    (void)text;
    (void)arg;
    atomic_fetch_add(&n_lines, 1);
}

struct relock_options trial_options(struct trial *trial, const struct scene *scene)
{
    struct relock_options all = scene->options;

    if (!all.url)
        all.url = trial->f->server->unix_url;
    if (all.watchdog_timeout_ms == 0)
        all.watchdog_timeout_ms = slow_ms(LEASE_MS);
    if (all.recheck_ms == 0)
        all.recheck_ms = slow_ms(RECHECK_MS);
    if (scene->makes_client && all.connect_timeout_ms == 0)
        all.connect_timeout_ms = outlast_ms(CONNECT_MS);
    if (!scene->is_tracked)
        all.flags |= RELOCK_NO_TRACKING; /* its connections would come and go meanwhile */
    all.on_log = count_line;             /* the fixture's callback stores its arguments */
    all.log_level = RELOCK_LOG_DEBUG;
    return all;
}

struct relock_client *trial_other_client(struct trial *trial, const struct relock_options *options)
{
    struct relock_options all = trial_options(trial, &(struct scene){.options = *options});

    return fixture_client(trial->f, &all);
}

bool trial_wait(const struct trial *trial, wait_predicate_fn *is_done, void *arg)
{
    uint64_t until_ms = deadline_in(SOON_MS);

    while (!is_done(arg)) {
        if (trial->for_good && alloc_refused() >= SOME_REFUSALS)
            return true;
        if (now_ms() >= until_ms)
            return late_unless(false);
        let_pass(2);
    }
    return true;
}

/* ---- one play ------------------------------------------------------------------------------ */

/* The client works as well as one that never lacked memory. */
static void check_client(struct trial *trial)
{
    struct relock_lock *ledger = fixture_lock(trial->f, trial->client, "ledger");
    struct probe *probe = trial->f->probe;

    assert_result(relock_timedlock(trial->lock, SOON_MS), RELOCK_OK);
    assert_result(relock_unlock(trial->lock), RELOCK_OK);
    assert_true(peer_lock(probe, "ledger", PEER, LONG_MS));
    actor_begin_lock(trial->actor, ledger);
    assert_true(probe_wait_subscribers(probe, "redisson_lock__channel:{ledger}", 1));
    assert_true(peer_unlock(probe, "ledger", PEER));
    assert_result(actor_result(trial->actor), RELOCK_OK);
    assert_result(actor_unlock(trial->actor, ledger), RELOCK_OK);
    fixture_free_lock(trial->f, ledger);
}

static void check_result_of(const struct scene *scene, int result, size_t refused)
{
    if (refused > 0 && scene->whose != ALLOC_OTHERS && result == RELOCK_E_NOMEM)
        return;
    assert_result(result, scene->answer);
}

static size_t act(struct trial *trial, const struct scene *scene, size_t nth, size_t n)
{
    size_t refused;
    int result, error;

    alloc_fail(nth > 0 ? scene->whose : ALLOC_NOBODYS, nth, n);
    errno = ERRNO;
    result = scene->act(trial);
    error = errno;
    refused = alloc_stop();
    trial->done = true;
    check_result_of(scene, result, refused);
    if (scene->whose != ALLOC_OTHERS)
        assert_int_equal(error, ERRNO);
    if (scene->after)
        scene->after(trial, result);
    return refused;
}

static int run_finally(void *arg)
{
    const struct scene *scene = arg;

    scene->finally();
    return RELOCK_OK;
}

/* The actor may have connected, too. */
static void end_in_both_threads(struct trial *trial, const struct scene *scene)
{
    scene->finally();
    actor_begin(trial->actor, run_finally, (void *)scene);
    assert_result(actor_result(trial->actor), RELOCK_OK);
}

/* Refuses request number `nth`, or all `n` from there. Returns how many were refused. */
static size_t play(struct trial *trial, const struct scene *scene, size_t nth, size_t n)
{
    struct fixture *f = trial->f;
    struct leaks before = leaks_now();
    size_t refused;

    now.under_way = true;
    now.nth = nth;
    now.n = n;
    trial->options = trial_options(trial, scene);
    trial->for_good = n == ALLOC_FROM_THEN_ON;
    trial->done = false;
    trial->client = scene->makes_client ? NULL : fixture_client(f, &trial->options);
    trial->lock = scene->makes_client ? NULL : kind_lock(f, trial->client, "orders");
    if (scene->before)
        scene->before(trial);
    refused = act(trial, scene, nth, n);

    assert_true(wait_for_no_keys(f->probe));
    if (trial->client && !trial->lock)
        trial->lock = kind_lock(f, trial->client, "orders");
    if (trial->client && !scene->ends_client)
        check_client(trial);
    fixture_free_lock(f, trial->lock);
    fixture_free_client(f, trial->client);
    if (scene->finally)
        end_in_both_threads(trial, scene);
    assert_int_equal(probe_n_keys(f->probe), 0);
    assert_true(leaks_none_since(&before));
    now.under_way = false;
    return refused;
}

void trial_refuse_some(int argc, char **argv, size_t n)
{
    if (argc < 2 || strcmp(argv[1], "all") != 0)
        one_of = n;
}

static size_t play_all(struct trial *trial, const struct scene *scene, size_t n)
{
    size_t step = (scene->step > 0 ? scene->step : 1) * one_of;
    size_t nth = 1 - step;
    size_t refused;

    do {
        struct alloc_mark before = alloc_mark();

        nth += step;
        refused = play(trial, scene, nth, n);
        assert_true(alloc_nothing_since(&before));
    } while (refused > 0);
    return nth - 1;
}

static int spare(void *arg)
{
    (void)arg;
    alloc_spare();
    return RELOCK_OK;
}

void trial_spare(struct actor *actor)
{
    actor_begin(actor, spare, NULL);
    assert_result(actor_result(actor), RELOCK_OK);
}

static size_t play_both(void **state, const struct scene *scene)
{
    struct trial trial = {.f = *state, .actor = actor_start()};
    size_t n;

    trial_spare(trial.actor);
    (void)play(&trial, scene, 0,
               0); /* memory that is kept for ever is allocated in the first play */
    n = play_all(&trial, scene, 1);
    (void)play_all(&trial, scene, ALLOC_FROM_THEN_ON);
    return n;
}

void trial_play(void **state, const struct scene *scene)
{
    size_t n = play_both(state, scene);

    printf("%zu requests\n", n);
    assert_true(n > 0);
}

void trial_play_without(void **state, const struct scene *scene)
{
    assert_int_equal(play_both(state, scene), 0);
}

/* ---- what scenes do ----------------------------------------------------------------------- */

void trial_hold(struct trial *trial)
{
    assert_result(relock_lock(trial->lock), RELOCK_OK);
    trial->seen = 0;
}

void trial_unlock(struct trial *trial, int result)
{
    assert_result(result, RELOCK_OK);
    assert_result(relock_unlock(trial->lock), RELOCK_OK);
}

void trial_unlock_in_any_case(struct trial *trial, int result)
{
    (void)result;
    assert_result(relock_unlock(trial->lock), RELOCK_OK);
}

int trial_trylock(struct trial *trial)
{
    return relock_trylock(trial->lock);
}

int trial_wait_for_lock(struct trial *trial)
{
    return relock_timedlock(trial->lock, (int64_t)slow_ms(SOON_MS));
}

int trial_release(struct trial *trial)
{
    return relock_unlock(trial->lock);
}

static bool is_free(void *arg)
{
    return probe_n_keys(((struct trial *)arg)->f->probe) == 0;
}

int trial_wait_until_free(struct trial *trial)
{
    return trial_wait(trial, is_free, trial) ? RELOCK_OK : RELOCK_TIMEOUT;
}

void trial_unlock_if_held(struct trial *trial, int result)
{
    if (result == RELOCK_OK)
        assert_result(relock_unlock(trial->lock), RELOCK_OK);
    assert_result(relock_unlock(trial->lock), RELOCK_NOT_OWNER);
}

void trial_peer_holds(struct trial *trial)
{
    assert_true(peer_lock(trial->f->probe, "orders", PEER, LONG_MS));
}

void trial_peer_goes(struct trial *trial, int result)
{
    (void)result;
    assert_true(peer_unlock(trial->f->probe, "orders", PEER));
}

int trial_new_client(struct trial *trial)
{
    int r = relock_client_new(&trial->options, &trial->client);

    trial->f->clients[0] = trial->client;
    return r;
}

void trial_hold_connected(struct trial *trial)
{
    assert_result(relock_lock(trial->lock), RELOCK_OK);
    assert_true(wait_for_login(trial->f->probe));
}

/* The I/O thread; a caller connects when it needs to. */
static bool has_logged_in(void *arg)
{
    return probe_n_clients(((struct trial *)arg)->f->probe, " name=relock:") == 1;
}

int trial_connect_again(struct trial *trial)
{
    probe_int(trial->f->probe, "CLIENT KILL TYPE normal SKIPME yes");
    return trial_wait(trial, has_logged_in, trial) ? RELOCK_OK : RELOCK_TIMEOUT;
}

bool trial_has_been_renewed(void *arg)
{
    struct trial *trial = arg;
    struct relock_stats stats;

    return relock_client_stats(trial->client, &stats, sizeof(stats)) == RELOCK_OK &&
           stats.renewed > trial->seen;
}

void trial_still_holds(struct trial *trial, int result)
{
    trial->seen = stats_of(trial->client).renewed;
    assert_true(wait_until(trial_has_been_renewed, trial, SOON_MS));
    assert_int_equal(stats_of(trial->client).lost, 0);
    trial_unlock(trial, result);
}

/* ---- the group ----------------------------------------------------------------------------- */

/* Makes libc allocate what it keeps for ever, as the library would. */
static void look_up(void)
{
    struct addrinfo hints = {.ai_flags = AI_ADDRCONFIG, .ai_socktype = SOCK_STREAM};
    struct addrinfo *addresses;

    if (getaddrinfo("localhost", "1", &hints, &addresses) == 0)
        freeaddrinfo(addresses);
}

int trial_group_start_with(void **state, const struct server_options *options)
{
    struct fixture *f;

    if (!alloc_is_ours()) {
        print_error("memory comes from a sanitizer or valgrind, and cannot be refused: skipped\n");
        exit(SERVER_EXIT_SKIP);
    }
    (void)alloc_mark();
    look_up();
    if (fixture_start_with(state, options) != 0)
        return -1;
    f = *state;
    probe_int(f->probe, "ACL SETUSER " USER " on >" PASSWORD " ~* &* +@all");
    return 0;
}

int trial_group_start(void **state)
{
    return trial_group_start_with(state, &(struct server_options){.tcp = true});
}

int trial_end(void **state)
{
    (void)alloc_stop();
    if (now.under_way)
        print_error("it was with request %zu refused, %s\n", now.nth,
                    now.n == 1 ? "alone" : "and all behind it");
    now.under_way = false;
    return fixture_end(state);
}
