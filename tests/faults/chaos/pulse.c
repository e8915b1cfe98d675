#include "pulse.h"

#include "schedule.h"
#include "support/wait.h"

#include <stdlib.h>

#define BEAT_MS 20
#define LATE_NS ((uint64_t)200 * 1000 * 1000) /* a fraction of the longest round trip */

static void *beat(void *arg)
{
    struct pulse *pulse = arg;
    struct history_record stopped = {
        .kind = HISTORY_FAULT, .slot = pulse->slot, .life = pulse->life, .value = FAULT_STOP};

    stopped.to_ns = pulse->began_ns; /* the thread may already be late */
    while (!atomic_load(&pulse->over)) {
        stopped.from_ns = stopped.to_ns;
        let_pass(BEAT_MS);
        stopped.to_ns = history_now_ns();
        if (stopped.to_ns - stopped.from_ns > LATE_NS)
            history_write(pulse->history, &stopped);
    }
    return NULL;
}

void pulse_start(struct pulse *pulse, struct history *history, int slot, int life)
{
    pulse->history = history;
    pulse->slot = slot;
    pulse->life = life;
    pulse->began_ns = history_now_ns();
    atomic_init(&pulse->over, false);
    if (pthread_create(&pulse->thread, NULL, beat, pulse) != 0)
        abort();
}

void pulse_stop(struct pulse *pulse)
{
    atomic_store(&pulse->over, true);
    pthread_join(pulse->thread, NULL);
}
