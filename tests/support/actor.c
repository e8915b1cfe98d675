#include "support/actor.h"

#include "support/late.h"
#include "support/wait.h"

#include <pthread.h>
#include <stdlib.h>

#define MOMENT_MS 500
#define STACK_BYTES ((size_t)2 << 20) /* a thousand of them fit into 32 bits */

struct actor {
    struct actor *next; /* of all; main thread */
    pthread_t thread;

    /* Of the present step; written before it begins. */
    actor_step_fn *step;
    void *arg;
    struct relock_lock *lock;
    struct relock_how how;
    struct relock_grant grant;
    int64_t wait_ms;
    int n_turns;

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct progress {
        bool busy, ending;
        int result;
        uint64_t took_ms, ended_ms;
    } guarded; /* by mutex */
};

static struct actor *started;

static void *run(void *arg)
{
    struct actor *actor = arg;

    pthread_mutex_lock(&actor->mutex);
    for (;;) {
        uint64_t began_ms, ended_ms;
        int result;

        while (!actor->guarded.busy && !actor->guarded.ending)
            pthread_cond_wait(&actor->changed, &actor->mutex);
        if (!actor->guarded.busy)
            break;

        pthread_mutex_unlock(&actor->mutex);
        began_ms = now_ms();
        result = actor->step(actor->arg);
        ended_ms = now_ms();
        pthread_mutex_lock(&actor->mutex);

        actor->guarded.ended_ms = ended_ms;
        actor->guarded.took_ms = ended_ms - began_ms;
        actor->guarded.result = result;
        actor->guarded.busy = false;
        pthread_cond_broadcast(&actor->changed);
    }
    pthread_mutex_unlock(&actor->mutex);
    return NULL;
}

struct actor *actor_start(void)
{
    struct actor *actor = calloc(1, sizeof(*actor));
    pthread_condattr_t monotonic;
    pthread_attr_t small;

    if (!actor)
        abort();
    pthread_mutex_init(&actor->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&actor->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK_BYTES);
    if (pthread_create(&actor->thread, &small, run, actor) != 0)
        abort();
    pthread_attr_destroy(&small);

    actor->next = started;
    started = actor;
    return actor;
}

void actor_begin(struct actor *actor, actor_step_fn *step, void *arg)
{
    pthread_mutex_lock(&actor->mutex);
    if (actor->guarded.busy)
        abort(); /* the test is wrong: one step at a time */
    actor->step = step;
    actor->arg = arg;
    actor->guarded.busy = true;
    pthread_cond_broadcast(&actor->changed);
    pthread_mutex_unlock(&actor->mutex);
}

void actors_begin(struct actor **actors, size_t n, actor_step_fn *step, void *arg)
{
    for (size_t i = 0; i < n; i++) {
        actors[i] = actor_start();
        actor_begin(actors[i], step, arg);
    }
}

/* With the mutex. */
static void wait_while_busy(struct actor *actor, uint64_t within_ms)
{
    uint64_t deadline_ms = deadline_in(within_ms);
    struct timespec deadline = {.tv_sec = (time_t)(deadline_ms / 1000),
                                .tv_nsec = (long)(deadline_ms % 1000) * 1000000};

    while (actor->guarded.busy &&
           pthread_cond_timedwait(&actor->changed, &actor->mutex, &deadline) == 0)
        ;
}

/* If the machine has stood still for so long, this thread may go on before that of the actor. */
int actor_result_within(struct actor *actor, uint64_t within_ms)
{
    int result;

    pthread_mutex_lock(&actor->mutex);
    wait_while_busy(actor, within_ms);
    wait_while_busy(actor, MOMENT_MS);
    result = actor->guarded.busy ? ACTOR_BUSY : actor->guarded.result;
    (void)late_unless(!actor->guarded.busy);
    pthread_mutex_unlock(&actor->mutex);
    return result;
}

int actor_result(struct actor *actor)
{
    return actor_result_within(actor, SOON_MS);
}

static struct progress progress_of(struct actor *actor)
{
    struct progress progress;

    pthread_mutex_lock(&actor->mutex);
    progress = actor->guarded;
    pthread_mutex_unlock(&actor->mutex);
    return progress;
}

bool actor_is_busy(struct actor *actor)
{
    return progress_of(actor).busy;
}

uint64_t actor_ended_ms(struct actor *actor)
{
    return progress_of(actor).ended_ms;
}

uint64_t actor_took_ms(struct actor *actor)
{
    return progress_of(actor).took_ms;
}

void actor_end(struct actor *actor)
{
    struct actor **link = &started;

    pthread_mutex_lock(&actor->mutex);
    actor->guarded.ending = true;
    pthread_cond_broadcast(&actor->changed);
    pthread_mutex_unlock(&actor->mutex);
    pthread_join(actor->thread, NULL);

    while (*link != actor)
        link = &(*link)->next;
    *link = actor->next;
    pthread_cond_destroy(&actor->changed);
    pthread_mutex_destroy(&actor->mutex);
    free(actor);
}

void actor_end_all(void)
{
    while (started)
        actor_end(started);
}

static int step_acquire(void *arg)
{
    struct actor *actor = arg;

    return relock_acquire(actor->lock, &actor->how, &actor->grant);
}

static int step_lock(void *arg)
{
    return relock_lock(((struct actor *)arg)->lock);
}

static int step_trylock(void *arg)
{
    return relock_trylock(((struct actor *)arg)->lock);
}

static int step_timedlock(void *arg)
{
    struct actor *actor = arg;

    return relock_timedlock(actor->lock, actor->wait_ms);
}

static int step_unlock(void *arg)
{
    return relock_unlock(((struct actor *)arg)->lock);
}

static int step_check(void *arg)
{
    struct actor *actor = arg;

    return relock_check(actor->lock, 0, &actor->grant);
}

int actor_take_turn(void *arg)
{
    int r = relock_lock(arg);

    return r == RELOCK_OK ? relock_unlock(arg) : r;
}

static int step_turns(void *arg)
{
    struct actor *actor = arg;
    int r = RELOCK_OK;

    for (int i = 0; i < actor->n_turns && r == RELOCK_OK; i++)
        r = actor_take_turn(actor->lock);
    return r;
}

void actor_begin_turns(struct actor *actor, struct relock_lock *lock, int n)
{
    actor->lock = lock;
    actor->n_turns = n;
    actor_begin(actor, step_turns, actor);
}

void actor_begin_lock(struct actor *actor, struct relock_lock *lock)
{
    actor->lock = lock;
    actor_begin(actor, step_lock, actor);
}

void actors_begin_lock(struct actor **actors, size_t n, struct relock_lock *lock)
{
    for (size_t i = 0; i < n; i++) {
        actors[i] = actor_start();
        actor_begin_lock(actors[i], lock);
    }
}

void actor_begin_timedlock(struct actor *actor, struct relock_lock *lock, int64_t wait_ms)
{
    actor->lock = lock;
    actor->wait_ms = wait_ms;
    actor_begin(actor, step_timedlock, actor);
}

void actor_begin_acquire(struct actor *actor, struct relock_lock *lock,
                         const struct relock_how *how)
{
    actor->lock = lock;
    actor->how = *how;
    actor_begin(actor, step_acquire, actor);
}

static int do_step(struct actor *actor, struct relock_lock *lock, actor_step_fn *step)
{
    actor->lock = lock;
    actor_begin(actor, step, actor);
    return actor_result(actor);
}

int actor_lock(struct actor *actor, struct relock_lock *lock)
{
    return do_step(actor, lock, step_lock);
}

int actor_trylock(struct actor *actor, struct relock_lock *lock)
{
    return do_step(actor, lock, step_trylock);
}

int actor_timedlock(struct actor *actor, struct relock_lock *lock, int64_t wait_ms)
{
    actor_begin_timedlock(actor, lock, wait_ms);
    return actor_result(actor);
}

int actor_wait_out(struct actor *actor, struct relock_lock *lock, int64_t wait_ms)
{
    uint64_t deadline_ms = deadline_in(SOON_MS);
    int r;

    do
        r = actor_timedlock(actor, lock, wait_ms);
    while (r == RELOCK_E_CONN && now_ms() < deadline_ms);
    return r;
}

int actor_acquire(struct actor *actor, struct relock_lock *lock, const struct relock_how *how)
{
    actor_begin_acquire(actor, lock, how);
    return actor_result(actor);
}

int actor_unlock(struct actor *actor, struct relock_lock *lock)
{
    return do_step(actor, lock, step_unlock);
}

int actor_check(struct actor *actor, struct relock_lock *lock)
{
    return do_step(actor, lock, step_check);
}

struct relock_grant actor_grant(struct actor *actor)
{
    return actor->grant;
}
