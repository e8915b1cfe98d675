/*
 * Clients that wait for a lock stand in a line: a release wakes one, and they acquire the lock in
 * the order in which they came. Nothing here ends by time but the reservation of the lock for the
 * client that was told to acquire it.
 */
#include "support/line.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define MANY 8

/* One client holds the lock, and others wait for it in this order. */
struct scene {
    struct fixture *f;
    struct relock_lock *held;
    struct relock_client *clients[MANY];
    struct relock_lock *locks[MANY];
    struct actor *waiting[MANY];
    int n;
    long long n_calls; /* scripts, in all turns */
};

static void hold(struct scene *scene, struct fixture *f)
{
    *scene = (struct scene){.f = f, .held = kind_lock(f, line_client(f), "orders")};
    assert_result(relock_lock(scene->held), RELOCK_OK);
}

/* The next to wait. */
static void add_client(struct scene *scene)
{
    int i = scene->n++;

    scene->clients[i] = line_client(scene->f);
    scene->locks[i] = kind_lock(scene->f, scene->clients[i], "orders");
}

/* ---- turns --------------------------------------------------------------------------------- */

static atomic_int n_before; /* turns so far */

struct turn {
    struct relock_lock *lock;
    int place; /* among all turns, from 0 */
};

static int take_a_turn(void *arg)
{
    struct turn *turn = arg;
    int r = relock_lock(turn->lock);

    if (r < 0)
        return r;
    turn->place = atomic_fetch_add(&n_before, 1);
    return relock_unlock(turn->lock);
}

/* All wait in this order; then each has its turn. Returns how often a client may have been
 * overtaken because it did not ask in time. */
static int all_take_a_turn(struct scene *scene, struct turn *turns)
{
    uint64_t began_ms;

    atomic_store(&n_before, 0);
    for (int i = 0; i < MANY; i++) {
        add_client(scene);
        turns[i].lock = scene->locks[i];
        scene->waiting[i] = actor_start();
        actor_begin(scene->waiting[i], take_a_turn, &turns[i]);
        assert_true(line_wait(scene->f, i + 1));
    }
    scene->n_calls = probe_script_calls(scene->f->probe);
    began_ms = now_ms();
    assert_result(relock_unlock(scene->held), RELOCK_OK);
    assert_results(scene->waiting, MANY, RELOCK_OK);
    scene->n_calls = probe_script_calls(scene->f->probe) - scene->n_calls;
    return (int)((now_ms() - began_ms) / LINE_RESERVED_MS);
}

/* ---- who asks ------------------------------------------------------------------------------ */

/* One that is first for LINE_RESERVED_MS asks once more. */
static void only_the_first_asks_after_a_release(void **state)
{
    struct turn turns[MANY];
    struct scene scene;
    int n_late;

    hold(&scene, *state);
    n_late = all_take_a_turn(&scene, turns);
    print_message("%d turns: %lld script calls\n", MANY + 1, scene.n_calls);
    assert_true(scene.n_calls <= 1 + (2 * MANY) + 2 + (2 * n_late));
}

/* From the start of the release to the end of the wait of another thread. */
static uint64_t passing_ms(struct relock_client *client, struct relock_lock *lock)
{
    struct actor *waiting = actor_start();
    uint64_t began_ms;

    assert_result(relock_lock(lock), RELOCK_OK);
    actor_begin_lock(waiting, lock);
    assert_true(wait_for_waiters(client, 1));
    let_pass(10); /* after this the hold is not handed off */
    began_ms = now_ms();
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_gets_in(waiting, lock);
    return actor_ended_ms(waiting) - began_ms;
}

/* It gets no message. A client that has waited once may stand in lines. */
static void a_client_alone_in_the_line_asks_at_once_after_its_release(void **state)
{
    uint64_t fastest_ms = NEVER_MS;
    struct scene scene;

    hold(&scene, *state);
    add_client(&scene);
    scene.waiting[0] = line_begin(scene.f, scene.locks[0], 1);
    assert_result(relock_unlock(scene.held), RELOCK_OK);
    assert_gets_in(scene.waiting[0], scene.locks[0]);
    for (int i = 0; i < 5; i++) {
        uint64_t took_ms = passing_ms(scene.clients[0], scene.locks[0]);

        fastest_ms = took_ms < fastest_ms ? took_ms : fastest_ms;
    }
    assert_true(fastest_ms < LINE_RESERVED_MS);
    assert_int_equal(stats_of(scene.clients[0]).passed_on, 0);
}

/* Nobody asks Redis during this wait: the release before it told another client, and the first
 * thread of this one sleeps for LINE_RESERVED_MS, or until a message. */
static void a_wait_behind_another_client_of_the_line_times_out(void **state)
{
    struct actor *first = actor_start();
    struct relock_lock *ours;
    struct scene scene;

    hold(&scene, *state);
    add_client(&scene);
    ours = scene.locks[0];
    scene.waiting[0] = line_begin(scene.f, ours, 1);
    assert_result(relock_unlock(scene.held), RELOCK_OK);
    assert_gets_in(scene.waiting[0], ours); /* from now on it may stand in lines */

    assert_result(relock_lock(ours), RELOCK_OK);
    scene.waiting[1] = line_begin(scene.f, scene.held, 1);
    actor_begin_lock(first, ours);
    assert_true(wait_for_waiters(scene.clients[0], 1));
    let_pass(10); /* after this the hold is not handed off */
    assert_result(relock_unlock(ours), RELOCK_OK);
    assert_result(relock_timedlock(ours, 10), RELOCK_TIMEOUT);
    assert_result(actor_result(scene.waiting[1]), RELOCK_OK);
    assert_int_equal(log_count(scene.f->log, "no answer"), 0);
    assert_true(actor_is_busy(first));
    assert_result(actor_unlock(scene.waiting[1], scene.held), RELOCK_OK);
    assert_gets_in(first, ours);
}

/* ---- in which order ------------------------------------------------------------------------ */

static void clients_get_the_lock_in_the_order_of_arrival(void **state)
{
    struct turn turns[MANY];
    struct scene scene;
    int n_late, n_overtaken = 0;

    hold(&scene, *state);
    n_late = all_take_a_turn(&scene, turns);
    for (int i = 0; i < MANY; i++)
        n_overtaken += turns[i].place > i;
    assert_true(n_overtaken <= n_late);
}

/* A client that was told, and then is silent. */
static void is_not_overtaken(struct fixture *f, struct relock_lock *held,
                             struct relock_lock *newcomer)
{
    struct listener *told = line_join_silent(f, SILENT);
    uint64_t began_ms = now_ms();

    assert_result(relock_unlock(held), RELOCK_OK);
    assert_true(line_hears_now(told));
    if (relock_trylock(newcomer) == RELOCK_OK) { /* this machine stood still */
        assert_took(began_ms, LINE_RESERVED_MS, slow_ms(SOON_MS));
        assert_result(relock_unlock(newcomer), RELOCK_OK);
    }
    assert_result(relock_lock(newcomer), RELOCK_OK);
    assert_took(began_ms, LINE_RESERVED_MS, slow_ms(SOON_MS));
    assert_true(line_wait(f, 0));
    assert_result(relock_unlock(newcomer), RELOCK_OK);
    listener_close(told);
}

static void a_newcomer_does_not_overtake_a_client_that_was_told(void **state)
{
    struct scene scene;

    hold(&scene, *state);
    is_not_overtaken(scene.f, scene.held, kind_lock(scene.f, line_client(scene.f), "orders"));
}

static void the_releaser_does_not_overtake_a_client_that_was_told(void **state)
{
    struct scene scene;

    hold(&scene, *state);
    is_not_overtaken(scene.f, scene.held, scene.held);
}

/* The holder releases it, and the waiter gets it when the reservation for a silent one is over. */
static void gets_it_after_the_reservation(struct scene *scene)
{
    uint64_t began_ms = now_ms();

    assert_result(relock_unlock(scene->held), RELOCK_OK);
    assert_result(actor_result(scene->waiting[0]), RELOCK_OK);
    assert_took(began_ms, LINE_RESERVED_MS, slow_ms(SOON_MS));
}

/* It is told that it is first, and asks when the reservation is over. */
static void the_second_gets_the_lock_if_the_first_is_silent(void **state)
{
    struct listener *silent;
    struct scene scene;

    hold(&scene, *state);
    silent = line_join_silent(scene.f, SILENT);
    add_client(&scene);
    scene.waiting[0] = line_begin(scene.f, scene.locks[0], 2);
    gets_it_after_the_reservation(&scene);
    assert_result(actor_unlock(scene.waiting[0], scene.locks[0]), RELOCK_OK);
    listener_close(silent);
}

/* It is told that it is second, and asks once. */
static void the_third_gets_the_lock_if_the_first_two_are_silent(void **state)
{
    struct listener *first, *second;
    struct scene scene;

    hold(&scene, *state);
    first = line_join_silent(scene.f, SILENT);
    second = line_join_silent(scene.f, SILENT2);
    add_client(&scene);
    scene.waiting[0] = line_begin(scene.f, scene.locks[0], 3);
    gets_it_after_the_reservation(&scene);
    assert_true(line_hears_now(first));
    assert_true(line_hears_first(second));
    listener_close(second);
    assert_true(probe_wait_subscribers(scene.f->probe, LINE_INBOX(SILENT2), 0));
    assert_result(actor_unlock(scene.waiting[0], scene.locks[0]), RELOCK_OK);
    assert_true(line_wait(scene.f, 0));
    listener_close(first);
}

/* It has been told that it is first, and listens; then another client is told, and is silent. */
static void a_listening_client_asks_again_when_the_reservation_is_over(void **state)
{
    char second[LINE_ENTRY_MAX], first[LINE_ENTRY_MAX];
    struct listener *silent;
    struct scene scene;

    hold(&scene, *state);
    silent = line_join_silent(scene.f, SILENT);
    add_client(&scene);
    scene.waiting[0] = line_begin(scene.f, scene.locks[0], 2);
    line_entry(scene.f, 0, first);
    line_entry(scene.f, 1, second);
    probe_int(scene.f->probe, "HSET " LINE_TURN " told %s until 1 first %s", first, second);
    line_tell(scene.f, second,
              kind_now() == &kinds[KIND_WRITE] ? "first:write orders" : "first orders");
    assert_true(line_wait_listener(scene.f, second));

    gets_it_after_the_reservation(&scene);
    assert_result(actor_unlock(scene.waiting[0], scene.locks[0]), RELOCK_OK);
    listener_close(silent);
}

/* Its inbox has no subscriber, so the release tells the next one. */
static void a_client_without_a_subscription_is_passed_over(void **state)
{
    struct listener *gone, *there;
    struct scene scene;

    hold(&scene, *state);
    gone = line_join_silent(scene.f, SILENT);
    there = line_join_silent(scene.f, SILENT2);
    listener_close(gone);
    assert_true(probe_wait_subscribers(scene.f->probe, LINE_INBOX(SILENT), 0));
    assert_result(relock_unlock(scene.held), RELOCK_OK);
    assert_true(line_hears_now(there));
    assert_int_equal(probe_int(scene.f->probe, "LLEN " LINE), 1);
    assert_int_equal(probe_int(scene.f->probe, "DEL " LINE " " LINE_TURN), 2);
    listener_close(there);
}

/* ---- several threads ----------------------------------------------------------------------- */

#define N_ROUNDS 20

static struct rota {
    struct relock_lock *locks[2];
    char entries[2][LINE_ENTRY_MAX]; /* of the two clients in the line */
    int whose[4 * N_ROUNDS];         /* of each turn */
    atomic_int n;
    atomic_int n_done[2]; /* threads of each client */
    struct probe *probe;
    pthread_mutex_t mutex; /* of the probe: the holder of the lock uses it */
} rota;

static bool is_in_line(const char *entry)
{
    const char *places[] = {"LINDEX " LINE " 0", "LINDEX " LINE " 1"};
    bool is_there = false;

    pthread_mutex_lock(&rota.mutex);
    for (int i = 0; i < 2 && !is_there; i++)
        is_there = strcmp(probe_text(rota.probe, places[i]), entry) == 0;
    pthread_mutex_unlock(&rota.mutex);
    return is_there;
}

static bool other_waits(void *arg)
{
    int other = 1 - *(int *)arg;

    return is_in_line(rota.entries[other]) || atomic_load(&rota.n_done[other]) == 2;
}

static int take_turns(void *arg)
{
    int which = *(const int *)arg;
    int r = RELOCK_OK;

    for (int i = 0; i < N_ROUNDS && r == RELOCK_OK; i++) {
        r = relock_lock(rota.locks[which]);
        if (r < 0)
            return r;
        rota.whose[atomic_fetch_add(&rota.n, 1)] = which;
        let_pass(3); /* after this the hold is not handed off */
        (void)wait_until(other_waits, &which, SOON_MS);
        r = relock_unlock(rota.locks[which]);
    }
    atomic_fetch_add(&rota.n_done[which], 1);
    return r;
}

/* A release puts its client behind the others in the same script: that client does not ask until it
 * is told. A client that is first for LINE_RESERVED_MS asks once more. */
static void two_clients_with_two_threads_each_alternate(void **state)
{
    int numbers[] = {0, 1};
    struct actor *actors[4];
    struct scene scene;
    long long before, n_calls;
    int n_late, n_again = 0;
    uint64_t began_ms;

    hold(&scene, *state);
    rota = (struct rota){.probe = scene.f->probe, .mutex = PTHREAD_MUTEX_INITIALIZER};
    for (int i = 0; i < 2; i++) {
        add_client(&scene);
        rota.locks[i] = scene.locks[i];
        actors_begin(&actors[(size_t)i * 2], 2, take_turns, &numbers[i]);
        assert_true(wait_for_waiters(scene.clients[i], 2));
        assert_true(line_wait(scene.f, i + 1));
        line_entry(scene.f, i, rota.entries[i]);
    }
    before = probe_script_calls(scene.f->probe);
    began_ms = now_ms();
    assert_result(relock_unlock(scene.held), RELOCK_OK);
    for (int i = 0; i < 4; i++)
        assert_result(actor_result_within(actors[i], 3 * (uint64_t)SOON_MS), RELOCK_OK);

    n_late = (int)((now_ms() - began_ms) / LINE_RESERVED_MS);
    n_calls = probe_script_calls(scene.f->probe) - before;
    for (int i = 1; i < 4 * N_ROUNDS; i++)
        n_again += rota.whose[i] == rota.whose[i - 1];
    print_message("%d turns: %lld script calls, %d times twice\n", 4 * N_ROUNDS, n_calls, n_again);
    assert_true(n_calls <= 2 * (4 * N_ROUNDS) + 8 + (2 * n_late));
    assert_true(n_again <= n_late);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KINDS_TEST_OF(only_the_first_asks_after_a_release, reentrant), /* those of plain poll */
        KINDS_TEST_OF(only_the_first_asks_after_a_release, fenced),
        KINDS_TEST_OF(only_the_first_asks_after_a_release, write),
        KINDS_TEST_OF(a_client_alone_in_the_line_asks_at_once_after_its_release, reentrant),
        KINDS_TEST_OF(a_client_alone_in_the_line_asks_at_once_after_its_release, fenced),
        KINDS_TEST_OF(a_client_alone_in_the_line_asks_at_once_after_its_release, write),
        KINDS_TEST_OF(a_wait_behind_another_client_of_the_line_times_out, reentrant),
        KINDS_TEST_OF(a_wait_behind_another_client_of_the_line_times_out, fenced),
        KINDS_TEST_OF(a_wait_behind_another_client_of_the_line_times_out, write),
        LINE_TEST(clients_get_the_lock_in_the_order_of_arrival),
        LINE_TEST(a_newcomer_does_not_overtake_a_client_that_was_told),
        LINE_TEST(the_releaser_does_not_overtake_a_client_that_was_told),
        LINE_TEST(the_second_gets_the_lock_if_the_first_is_silent),
        LINE_TEST(the_third_gets_the_lock_if_the_first_two_are_silent),
        LINE_TEST(a_listening_client_asks_again_when_the_reservation_is_over),
        LINE_TEST(a_client_without_a_subscription_is_passed_over),
        KINDS_TEST_OF(two_clients_with_two_threads_each_alternate, reentrant),
        KINDS_TEST_OF(two_clients_with_two_threads_each_alternate, fenced),
        KINDS_TEST_OF(two_clients_with_two_threads_each_alternate, write),
    };

    return SERVER_TESTS_RUN(tests);
}
