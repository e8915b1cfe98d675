#include "support/storm.h"

#include "support/wait.h"

#include <stdlib.h>
#include <time.h>

unsigned storm_random(unsigned *seed, unsigned n)
{
    return (unsigned)rand_r(seed) % n;
}

void storm_pause(unsigned *seed, unsigned us)
{
    struct timespec time = {.tv_nsec = (long)storm_random(seed, us) * 1000};

    nanosleep(&time, NULL);
}

static unsigned long from_environment(const char *name, unsigned long otherwise)
{
    const char *value = getenv(name);

    return value ? strtoul(value, NULL, 10) : otherwise;
}

uint64_t storm_ms(unsigned long default_seconds)
{
    return 1000 * from_environment("RELOCK_STRESS_SECONDS", default_seconds);
}

unsigned storm_seed(void)
{
    return (unsigned)from_environment("RELOCK_STRESS_SEED", now_ms() % 1000000);
}

/* ---- cancels ------------------------------------------------------------------------------- */

void storm_cancels_init(struct storm_cancels *cancels, unsigned n, unsigned pause_us)
{
    cancels->n = n;
    cancels->pause_us = pause_us;
    for (unsigned i = 0; i < n; i++) {
        pthread_mutex_init(&cancels->of[i].mutex, NULL);
        cancels->of[i].cancel = NULL;
    }
}

void storm_cancels_deinit(struct storm_cancels *cancels)
{
    for (unsigned i = 0; i < cancels->n; i++)
        pthread_mutex_destroy(&cancels->of[i].mutex);
}

static void set(struct storm_cancels *cancels, unsigned i, struct relock_cancel *cancel)
{
    pthread_mutex_lock(&cancels->of[i].mutex);
    cancels->of[i].cancel = cancel;
    pthread_mutex_unlock(&cancels->of[i].mutex);
}

struct relock_cancel *storm_begin_wait(struct storm_cancels *cancels, unsigned i)
{
    struct relock_cancel *cancel;

    if (relock_cancel_new(&cancel) != RELOCK_OK)
        return NULL;
    set(cancels, i, cancel);
    return cancel;
}

void storm_end_wait(struct storm_cancels *cancels, unsigned i)
{
    struct relock_cancel *cancel = cancels->of[i].cancel;

    set(cancels, i, NULL);
    relock_cancel_free(cancel);
}

int storm_fire(void *arg)
{
    struct storm_cancels *cancels = arg;
    unsigned seed = cancels->seed;

    while (cancels->n_waiting > 0) {
        unsigned i = storm_random(&seed, cancels->n);

        storm_pause(&seed, cancels->pause_us);
        pthread_mutex_lock(&cancels->of[i].mutex);
        if (cancels->of[i].cancel)
            relock_cancel_fire(cancels->of[i].cancel);
        pthread_mutex_unlock(&cancels->of[i].mutex);
    }
    return 0;
}
