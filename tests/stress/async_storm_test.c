/*
 * One thread makes many asynchronous calls, while everything ends that can: waits by a
 * cancel or by time, connections, queues, clients, and the process in a forked child. Every call
 * must end, unless its queue was freed, and no key may be left in Redis.
 */
#include "support/child.h"
#include "support/fixture.h"
#include "support/reactor.h"
#include "support/storm.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_CALLS 48
#define N_STEPS 60
#define STEP_US 1500
#define MAX_PAIRS 8 /* of each call, in a storm */
#define DEFAULT_SECONDS 3

enum state { WAITS, HOLDS, RELEASES, OVER };

struct call {
    struct storm *storm;
    struct relock_lock *lock;
    struct relock_cancel *cancel;
    uint64_t owner;
    enum state state;
    unsigned n_left;
};

/* How a storm ends. */
enum end { CALLS_END, QUEUE_ENDS, CLIENT_ENDS, N_ENDS };

struct storm {
    struct fixture *f;
    struct relock_options options;
    struct relock_client *client;
    struct relock_events *events;
    struct call calls[N_CALLS];
    unsigned first, seed; /* of this storm: at its beginning, and now */
    unsigned n_over;
    bool is_ending;
    int wrong; /* a wrong result */
    unsigned n_held, n_cancelled, n_late, n_closed, n_forked, n_storms[N_ENDS];
};

/* ---- calls --------------------------------------------------------------------------------- */

static void begin(struct call *call);

static void end(struct call *call)
{
    call->state = OVER;
    call->storm->n_over++;
}

static void go_on(struct call *call)
{
    call->cancel = relock_cancel_free(call->cancel);
    if (call->storm->is_ending || --call->n_left == 0)
        end(call);
    else
        begin(call);
}

static void released(int result, void *arg)
{
    struct call *call = arg;

    if (result != RELOCK_OK && result != RELOCK_E_CLOSED)
        call->storm->wrong = result;
    go_on(call);
}

static void release(struct call *call)
{
    struct storm *storm = call->storm;
    int r = relock_release_async(call->lock, call->owner, storm->events, released, call);

    call->state = RELEASES;
    if (r != RELOCK_OK)
        released(r, call);
}

static void note(struct storm *storm, int result)
{
    switch (result) {
    case RELOCK_OK:
        storm->n_held++;
        return;
    case RELOCK_CANCELLED:
        storm->n_cancelled++;
        return;
    case RELOCK_BUSY:
    case RELOCK_TIMEOUT:
    case RELOCK_E_CONN: /* the deadline of a short wait, while it is unknown who holds the lock */
        storm->n_late++;
        return;
    case RELOCK_E_CLOSED:
        storm->n_closed++;
        return;
    default:
        storm->wrong = result;
    }
}

static void acquired(int result, const struct relock_grant *grant, void *arg)
{
    struct call *call = arg;
    struct storm *storm = call->storm;

    note(storm, result);
    if (result != RELOCK_OK) {
        go_on(call);
        return;
    }
    call->owner = grant->owner;
    call->state = HOLDS;
    if (storm->is_ending || storm_random(&storm->seed, 2) == 0)
        release(call);
}

static void begin(struct call *call)
{
    static const int64_t waits_ms[] = {0, 5, RELOCK_FOREVER, RELOCK_FOREVER};
    struct storm *storm = call->storm;
    struct relock_how how = {.wait_ms = waits_ms[storm_random(&storm->seed, 4)]};
    int r = relock_cancel_new(&call->cancel);

    how.cancel = call->cancel;
    if (r == RELOCK_OK)
        r = relock_acquire_async(call->lock, &how, storm->events, acquired, call);
    call->state = WAITS;
    if (r != RELOCK_OK) {
        note(storm, r);
        end(call);
    }
}

/* ---- what happens to them ------------------------------------------------------------------ */

static void change_one(struct storm *storm)
{
    struct call *call = &storm->calls[storm_random(&storm->seed, N_CALLS)];

    if (call->state == WAITS)
        relock_cancel_fire(call->cancel);
    else if (call->state == HOLDS)
        release(call);
}

/* The child inherits the mutexes in any state, without the I/O thread that locked them. */
static void fork_a_child(struct storm *storm)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        bool is_refused = relock_events_dispatch(storm->events) == RELOCK_E_FORKED &&
                          relock_release_async(storm->calls[0].lock, 1, storm->events, NULL,
                                               NULL) == RELOCK_E_FORKED;

        (void)relock_events_free(storm->events);
        for (unsigned i = 0; i < N_CALLS; i++)
            relock_lock_free(storm->calls[i].lock);
        (void)relock_client_free(storm->client);
        _exit(is_refused ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    storm->n_forked++;
}

static void break_connections(struct storm *storm)
{
    (void)probe_int(storm->f->probe, "CLIENT KILL TYPE normal SKIPME yes");
    (void)probe_int(storm->f->probe, "CLIENT KILL TYPE pubsub");
}

static void step(struct storm *storm)
{
    change_one(storm);
    if (storm_random(&storm->seed, 20) == 0 && child_can_leave_busy_threads())
        fork_a_child(storm);
    if (storm_random(&storm->seed, 60) == 0)
        break_connections(storm);
    (void)relock_events_dispatch(storm->events);
    storm_pause(&storm->seed, STEP_US);
}

/* ---- ends ---------------------------------------------------------------------------------- */

static bool are_over(void *arg)
{
    return ((struct storm *)arg)->n_over == N_CALLS;
}

/* Waiters without a limit must get in, one after the other. */
static void end_calls(struct storm *storm)
{
    for (unsigned i = 0; i < N_CALLS; i++)
        if (storm->calls[i].state == HOLDS)
            release(&storm->calls[i]);
    if (!reactor_run_until(storm->events, are_over, storm))
        fail_msg("seed %u: %u calls have not ended", storm->first, N_CALLS - storm->n_over);
}

/* Callbacks do not run any more. Only what they have got is held on, and cancels are not used. */
static void end_queue(struct storm *storm)
{
    storm->events = relock_events_free(storm->events);
    assert_null(storm->events);
    for (unsigned i = 0; i < N_CALLS; i++) {
        struct call *call = &storm->calls[i];

        call->cancel = relock_cancel_free(call->cancel);
        if (call->state == HOLDS)
            assert_result(relock_release(call->lock, call->owner), RELOCK_OK);
    }
    assert_true(wait_for_no_keys(storm->f->probe));
}

/* The client waits for its calls, and the queue still has their ends. */
static void end_client(struct storm *storm)
{
    assert_null(relock_client_free(storm->client));
    storm->client = NULL;
    end_calls(storm);
}

static void end_storm(struct storm *storm)
{
    enum end how = storm_random(&storm->seed, N_ENDS);

    storm->n_storms[how]++;
    storm->is_ending = true;
    if (how == CALLS_END)
        end_calls(storm);
    else if (how == QUEUE_ENDS)
        end_queue(storm);
    else
        end_client(storm);
    assert_null(relock_events_free(storm->events));
    for (unsigned i = 0; i < N_CALLS; i++)
        relock_lock_free(storm->calls[i].lock);
    assert_null(relock_client_free(storm->client));
    for (unsigned i = 0; i < N_CALLS; i++)
        relock_cancel_free(storm->calls[i].cancel);
    if (storm->wrong != 0)
        fail_msg("seed %u: %s", storm->first, relock_strerror(storm->wrong));
    assert_true(wait_for_no_keys(storm->f->probe));
}

/* ---- storms -------------------------------------------------------------------------------- */

static struct relock_lock *new_lock(struct storm *storm)
{
    struct relock_lock *lock = NULL;
    int r;

    switch (storm_random(&storm->seed, 6)) {
    case 0:
        r = relock_lock_new(storm->client, "orders", &lock);
        break;
    case 1:
        r = relock_lock_new(storm->client, "{orders}", &lock);
        break;
    case 2:
        r = relock_rdlock_new(storm->client, "stock", &lock);
        break;
    case 3:
        r = relock_wrlock_new(storm->client, "stock", &lock);
        break;
    default:
        r = relock_fairlock_new(storm->client, "ledger", &lock);
        break;
    }
    assert_result(r, RELOCK_OK);
    return lock;
}

static void storm_once(struct storm *storm)
{
    assert_result(relock_client_new(&storm->options, &storm->client), RELOCK_OK);
    storm->events = reactor_events(storm->client);
    storm->is_ending = false;
    storm->n_over = 0;
    for (unsigned i = 0; i < N_CALLS; i++) {
        storm->calls[i] = (struct call){.storm = storm,
                                        .lock = new_lock(storm),
                                        .n_left = 1 + storm_random(&storm->seed, MAX_PAIRS)};
        begin(&storm->calls[i]);
    }
    for (unsigned n = storm_random(&storm->seed, N_STEPS); n > 0; n--)
        step(storm);
    end_storm(storm);
}

static void whatever_ends_no_call_is_left_and_no_key(void **state)
{
    static struct storm storm;
    uint64_t until_ms = now_ms() + storm_ms(DEFAULT_SECONDS);
    unsigned first = storm_seed();

    storm = (struct storm){.f = *state};
    storm.options = fixture_options(storm.f, &(struct relock_options){.on_log = log_drop});
    print_message("seed %u\n", first);
    for (unsigned n = 0; n == 0 || now_ms() < until_ms; n++) {
        storm.first = storm.seed = first + 10007 * n;
        storm_once(&storm);
    }
    print_message("%u + %u + %u storms: %u acquired, %u cancelled, %u late, %u closed, %u forked\n",
                  storm.n_storms[CALLS_END], storm.n_storms[QUEUE_ENDS],
                  storm.n_storms[CLIENT_ENDS], storm.n_held, storm.n_cancelled, storm.n_late,
                  storm.n_closed, storm.n_forked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(whatever_ends_no_call_is_left_and_no_key),
    };

    return SERVER_TESTS_RUN(tests);
}
