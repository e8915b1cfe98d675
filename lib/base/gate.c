#include "base/gate.h"

void relock_gate_init(struct relock_gate *gate)
{
    *gate = (struct relock_gate){0};
    relock_mutex_init(&gate->mutex);
    relock_cond_init(&gate->opened);
}

void relock_gate_deinit(struct relock_gate *gate)
{
    relock_cond_deinit(&gate->opened);
    relock_mutex_deinit(&gate->mutex);
}

void relock_gate_open(struct relock_gate *gate)
{
    relock_mutex_lock(&gate->mutex);
    gate->guarded.open = true;
    relock_cond_signal(&gate->opened);
    relock_mutex_unlock(&gate->mutex);
}

bool relock_gate_wait(struct relock_gate *gate, uint64_t deadline_ms)
{
    bool in_time = true;
    bool opened;

    relock_mutex_lock(&gate->mutex);
    while (!gate->guarded.open && in_time)
        in_time = relock_cond_wait_until(&gate->opened, &gate->mutex, deadline_ms);
    /* An opening that came together with the deadline still counts. */
    opened = gate->guarded.open;
    gate->guarded.open = false;
    relock_mutex_unlock(&gate->mutex);
    return opened;
}
