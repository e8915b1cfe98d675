#include "crowd.h"

#include "measure.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#define CACHE_LINE 64
#define LOOK_NS 200000

struct member {
    pthread_t thread;
    crowd_step_fn *step;
    void *arg;
    const atomic_bool *stop;
    atomic_uint_fast64_t steps;
    char apart[CACHE_LINE]; /* counters of two threads must not share a cache line */
};

static void *run_member(void *arg)
{
    struct member *member = arg;

    while (!atomic_load_explicit(member->stop, memory_order_relaxed)) {
        member->step(member->arg);
        atomic_fetch_add_explicit(&member->steps, 1, memory_order_relaxed);
    }
    return NULL;
}

static uint64_t sum(struct member *members, unsigned n)
{
    uint64_t steps = 0;

    for (unsigned i = 0; i < n; i++)
        steps += atomic_load_explicit(&members[i].steps, memory_order_relaxed);
    return steps;
}

static void await_first_steps(struct member *members, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        while (atomic_load_explicit(&members[i].steps, memory_order_relaxed) == 0)
            sleep_ns(LOOK_NS);
}

struct crowd_count crowd_run(unsigned n_threads, crowd_step_fn *step, void *args, size_t arg_size,
                             double seconds)
{
    struct member *members = calloc(n_threads, sizeof(*members));
    struct crowd_count count;
    atomic_bool stop = false;
    uint64_t from_ns, from, took_ns, done;

    if (!members)
        die("out of memory");
    for (unsigned i = 0; i < n_threads; i++) {
        struct member *member = &members[i];

        member->step = step;
        member->arg = (char *)args + i * arg_size;
        member->stop = &stop;
        if (pthread_create(&member->thread, NULL, run_member, member) != 0)
            die("no thread %u of %u", i + 1, n_threads);
    }

    await_first_steps(members, n_threads);
    from = sum(members, n_threads);
    from_ns = now_ns();
    sleep_ns(seconds_to_ns(seconds));
    done = sum(members, n_threads) - from;
    took_ns = now_ns() - from_ns;

    atomic_store(&stop, true);
    for (unsigned i = 0; i < n_threads; i++)
        pthread_join(members[i].thread, NULL);
    count.per_second = (double)done * 1e9 / (double)took_ns;
    count.steps = sum(members, n_threads);
    free(members);
    return count;
}
