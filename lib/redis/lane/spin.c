#include "redis/lane/spin.h"

#include "base/clock.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>

/* One wait in so many uses the way that has been slower, to measure it again. */
#define N_BETWEEN_TRIALS 256

/* After so many waits without competition, there is probably none in the next. */
#define N_ROOMY 16

/* A single long wait says little about the others. */
#define SAMPLE_MAX_NS (4 * (uint64_t)RELOCK_SPIN_NS)

/* If threads of the process are preempted more often, others need the processors. */
#define PREEMPTED_EVERY_NS 25000000

static atomic_int n_processors; /* 0 before the first use */
static atomic_int n_waiting;

/* A forked child has none of its parent's waiting threads. */
static void in_child(void)
{
    atomic_store(&n_waiting, 0);
}

__attribute__((constructor)) static void register_handler(void)
{
    (void)pthread_atfork(NULL, NULL, in_child);
}

static int count_processors(void)
{
    int n = atomic_load_explicit(&n_processors, memory_order_relaxed);
    cpu_set_t set;

    if (n > 0)
        return n;
    n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    atomic_store_explicit(&n_processors, n, memory_order_relaxed);
    return n;
}

static bool leaves_one(void)
{
    return atomic_load_explicit(&n_waiting, memory_order_relaxed) < count_processors();
}

/* Looks whether other threads compete for the processors. A wait that is short because the thread
 * did not sleep says nothing about that: the scheduler makes it pay later. */
static void look_around(struct relock_spin *spin)
{
    struct rusage usage;
    long n;

    if (getrusage(RUSAGE_SELF, &usage) < 0)
        return;
    n = usage.ru_nivcsw - spin->n_preempted;
    spin->is_crowded =
        n > 1 && (spin->began_ns - spin->looked_ns) / (uint64_t)n < PREEMPTED_EVERY_NS;
    spin->n_preempted = usage.ru_nivcsw;
    spin->looked_ns = spin->began_ns;
}

/* Retries cost processor time, so they have to be clearly faster. */
static bool pays(const struct relock_spin *spin)
{
    return !spin->is_crowded && spin->spinning_ns < spin->sleeping_ns / 4 * 3;
}

static bool chooses_to_spin(struct relock_spin *spin)
{
    bool is_trial = spin->n++ % N_BETWEEN_TRIALS == 0;

    if (is_trial)
        look_around(spin);
    if (spin->spinning_ns == 0 || spin->sleeping_ns == 0)
        return spin->spinning_ns == 0;
    return pays(spin) != is_trial;
}

bool relock_spin_begin(struct relock_spin *spin)
{
    (void)atomic_fetch_add_explicit(&n_waiting, 1, memory_order_relaxed);
    spin->spins = false;
    spin->began_ns = 0;
    spin->n_roomy = leaves_one() ? spin->n_roomy + 1 : 0;
    if (spin->n_roomy < N_ROOMY)
        return false;
    spin->began_ns = relock_clock_now_ns();
    spin->spins = chooses_to_spin(spin);
    return spin->spins;
}

bool relock_spin_continues(struct relock_spin *spin)
{
    if (!leaves_one())
        spin->n_roomy = 0;
    return spin->n_roomy > 0 && relock_clock_now_ns() - spin->began_ns < RELOCK_SPIN_NS;
}

static void learn(uint64_t *average_ns, uint64_t sample_ns)
{
    if (sample_ns > SAMPLE_MAX_NS)
        sample_ns = SAMPLE_MAX_NS;
    *average_ns = *average_ns == 0 ? sample_ns : (*average_ns * 7 + sample_ns) / 8;
}

void relock_spin_end(struct relock_spin *spin)
{
    (void)atomic_fetch_sub_explicit(&n_waiting, 1, memory_order_relaxed);
    if (spin->began_ns != 0)
        learn(spin->spins ? &spin->spinning_ns : &spin->sleeping_ns,
              relock_clock_now_ns() - spin->began_ns);
}
