/*
 * Waiters that read their messages themselves. Only messages and the times of the line wake them,
 * no recheck.
 */
#include "faults.h"
#include "io_thread.h"
#include "support/line.h"
#include "support/reactor.h"

#define CHANNEL "redisson_lock__channel:{orders}"

struct scene {
    struct faults *t;
    struct relock_client *client; /* of the waiters */
    struct relock_lock *held;     /* "orders" */
    uint64_t n_waits;             /* of the waiters, so far */
};

static void set(struct scene *scene, struct faults *t)
{
    *scene = (struct scene){.t = t};
    scene->client = faults_client(t, &(struct relock_options){.recheck_ms = NEVER_MS});
    scene->held = fixture_lock(t->f, line_client(t->f), "orders");
    assert_result(relock_lock(scene->held), RELOCK_OK);
}

static bool waits_again(void *arg)
{
    const struct scene *scene = arg;

    return stats_of(scene->client).waits > scene->n_waits;
}

/* A waiter for "orders", which asks no more until a message comes: it has waited for its inbox, for
 * the channel of the lock, and now waits for the release. */
static struct actor *begin_to_wait(struct scene *scene)
{
    struct actor *actor = actor_start();

    actor_begin_lock(actor, fixture_lock(scene->t->f, scene->client, "orders"));
    scene->n_waits = 2;
    assert_true(wait_until(waits_again, scene, SOON_MS));
    return actor;
}

static void a_waiter_gets_the_lock_while_the_io_thread_stands_still(void **state)
{
    struct scene scene;
    struct actor *actor;

    set(&scene, *state);
    actor = begin_to_wait(&scene);
    assert_true(io_thread_stop(proxy_url(scene.t->proxy)));
    assert_result(relock_unlock(scene.held), RELOCK_OK);
    assert_result(actor_result(actor), RELOCK_OK);
    assert_true(io_thread_go_on());
    assert_int_equal(stats_of(scene.client).rechecks, 0);
    assert_result(actor_unlock(actor, fixture_lock(scene.t->f, scene.client, "orders")), RELOCK_OK);
}

/* A debugger may have stopped it, or it is in a handler of a signal. */
static void no_waiter_depends_on_one_that_stands_still(void **state)
{
    struct scene scene;
    struct relock_lock *parcels;
    struct actor *stopped, *other = actor_start();
    struct relock_lock *wanted;

    set(&scene, *state);
    parcels = fixture_lock(scene.t->f, line_client(scene.t->f), "parcels");
    wanted = fixture_lock(scene.t->f, scene.client, "parcels");
    assert_result(relock_lock(parcels), RELOCK_OK);
    stopped = begin_to_wait(&scene);
    assert_true(io_thread_stop_waiter(proxy_url(scene.t->proxy)));

    actor_begin_lock(other, wanted);
    assert_true(probe_wait_in_line(scene.t->f->probe, "parcels", 1));
    assert_result(relock_unlock(parcels), RELOCK_OK);
    assert_result(actor_result(other), RELOCK_OK);
    assert_true(io_thread_go_on());

    assert_result(actor_unlock(other, wanted), RELOCK_OK);
    assert_result(relock_unlock(scene.held), RELOCK_OK);
    assert_result(actor_result(stopped), RELOCK_OK);
    assert_result(actor_unlock(stopped, fixture_lock(scene.t->f, scene.client, "orders")),
                  RELOCK_OK);
}

#define PROMPT_MS 75 /* for 100 ms the I/O thread leaves a message to a waiter that reads */

/* How long an asynchronous call takes from the release until its callback, when it has nothing more
 * to send. */
static uint64_t pass(struct scene *scene, struct relock_lock *held, struct relock_lock *wanted,
                     struct relock_events *events)
{
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    struct outcome outcome;
    uint64_t began_ms, took_ms;

    assert_result(relock_lock(held), RELOCK_OK);
    scene->n_waits = stats_of(scene->client).waits + 1; /* for the channel, and for the release */
    assert_result(outcome_acquire(wanted, &how, events, &outcome), RELOCK_OK);
    assert_true(wait_until(waits_again, scene, SOON_MS));
    began_ms = now_ms();
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_result(reactor_await(events, &outcome), RELOCK_OK);
    took_ms = now_ms() - began_ms;
    assert_result(reactor_release(wanted, outcome.grant.owner, events), RELOCK_OK);
    return took_ms;
}

/* No thread waits in the call, so the I/O thread reads its message at once. A fair lock has no
 * line, in which the call would soon ask by itself. A late machine gets several tries. */
static void no_call_without_a_thread_depends_on_a_waiter_that_stands_still(void **state)
{
    struct scene scene;
    struct relock_lock *held, *wanted;
    struct relock_events *events;
    struct actor *stopped;
    uint64_t least_ms = UINT64_MAX;

    set(&scene, *state);
    held = fixture_lock_of(scene.t->f, patient_client(scene.t->f, NEVER_MS), "parcels",
                           relock_fairlock_new);
    wanted = fixture_lock_of(scene.t->f, scene.client, "parcels", relock_fairlock_new);
    events = reactor_events(scene.client);
    stopped = begin_to_wait(&scene);
    assert_true(probe_wait_subscribers(scene.t->f->probe, CHANNEL, 1));
    assert_true(io_thread_stop_waiter(proxy_url(scene.t->proxy)));

    (void)pass(&scene, held, wanted, events); /* a reply to the waiter may come meanwhile */
    for (int i = 0; i < 10 && least_ms >= PROMPT_MS; i++) {
        uint64_t took_ms = pass(&scene, held, wanted, events);

        least_ms = took_ms < least_ms ? took_ms : least_ms;
    }
    assert_in_range(least_ms, 0, PROMPT_MS - 1);
    assert_true(io_thread_go_on());

    assert_result(relock_unlock(scene.held), RELOCK_OK);
    assert_result(actor_result(stopped), RELOCK_OK);
    assert_result(actor_unlock(stopped, fixture_lock(scene.t->f, scene.client, "orders")),
                  RELOCK_OK);
    assert_null(relock_events_free(events));
}

/* It asks again over the connection of its calls, before there is another one for messages: what
 * the old one had for it is lost. The next one mostly has the same descriptor. */
static void a_waiter_that_reads_hears_of_the_end_of_the_connection(void **state)
{
    struct scene scene;
    struct actor *actor;

    set(&scene, *state);
    actor = begin_to_wait(&scene);
    for (int i = 0; i < 3; i++) {
        assert_true(probe_wait_subscribers(scene.t->f->probe, CHANNEL, 1));
        scene.n_waits = stats_of(scene.client).waits;
        proxy_refuse(scene.t->proxy, true);
        proxy_cut(scene.t->proxy, "SUBSCRIBE");
        assert_true(wait_until(waits_again, &scene, SOON_MS));
        assert_int_equal(probe_subscribers(scene.t->f->probe, CHANNEL), 0);
        proxy_refuse(scene.t->proxy, false);
    }
    assert_true(probe_wait_subscribers(scene.t->f->probe, CHANNEL, 1));
    assert_result(relock_unlock(scene.held), RELOCK_OK);
    assert_result(actor_result(actor), RELOCK_OK);
    assert_int_equal(stats_of(scene.client).rechecks, 0);
    assert_result(actor_unlock(actor, fixture_lock(scene.t->f, scene.client, "orders")), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(a_waiter_gets_the_lock_while_the_io_thread_stands_still),
        FAULT_TEST(no_waiter_depends_on_one_that_stands_still),
        FAULT_TEST(no_call_without_a_thread_depends_on_a_waiter_that_stands_still),
        FAULT_TEST(a_waiter_that_reads_hears_of_the_end_of_the_connection),
    };

    return FAULT_TESTS_RUN(tests);
}
