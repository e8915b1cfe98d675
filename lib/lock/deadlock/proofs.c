#include "lock/deadlock/proofs.h"

#include "base/clock.h"
#include "base/container.h"
#include "lock/hold/acquire.h"

#include <stdlib.h>

/* Between the first look that finds a cycle and the second. */
#define NEXT_MS 2

/* Between the second and those that follow until one completes the proof: each time a little
 * longer, because a client may have died. */
#define SOON_MS 20
#define SOON_STEP_MS 10
#define SOON_MAX_MS 300

/* Between two looks that find nothing. The first ones come early, because the record of a plain
 * lock, or one at another server, may come a little after this one. */
#define EARLY_MS 60

/* The functions of this file are called with the mutex of the client. */
#define STEP RELOCK_UNCHECKED static

bool relock_proofs_concern(const struct relock_waiter *waiter)
{
    return waiter->wait.at_us > 0 && waiter->wait.is_recorded && waiter->end == RELOCK_WAITER_WAITS;
}

void relock_proofs_drop(struct relock_waiter *waiter)
{
    free(waiter->wait.proof);
    waiter->wait.proof = NULL;
}

STEP void refuse(struct relock_client *client, struct relock_graph *graph,
                 struct relock_waiter *waiter, size_t wait)
{
    struct relock_acquire *acquire = RELOCK_CONTAINER(struct relock_acquire, waiter, waiter);
    char why[RELOCK_WHY_MAX];

    relock_proof_explain(waiter->wait.proof, graph, wait, why, sizeof(why));
    relock_acquire_keep_why(acquire, why);
    graph->waits[wait].is_over = true;
    client->guarded.stats.deadlocks++;
    relock_resource_end_wait(waiter, RELOCK_WAITER_REFUSED, &client->mutex);
}

/* Returns whether the wait has a proof that another look is to continue. */
STEP bool decide(struct relock_client *client, struct relock_graph *graph,
                 struct relock_waiter *waiter)
{
    size_t wait = relock_graph_find(graph, client->id, waiter->wait.serial);
    enum relock_proof_state state = RELOCK_PROOF_GONE;

    if (wait == RELOCK_GRAPH_NONE || !relock_proofs_concern(waiter))
        return false;
    if (waiter->wait.proof)
        state = relock_proof_check(waiter->wait.proof, graph, wait);
    if (state == RELOCK_PROOF_DONE) {
        refuse(client, graph, waiter, wait);
        return false;
    }
    if (state == RELOCK_PROOF_GONE) {
        relock_proofs_drop(waiter);
        waiter->wait.proof = relock_graph_search(graph, wait);
    }
    return waiter->wait.proof != NULL;
}

/* How long after this look the next one follows. */
static uint64_t pause_after(struct relock_waits *waits, bool has_proof, bool is_new)
{
    if (is_new) {
        waits->proof_pause_ms = SOON_MS;
        return NEXT_MS;
    }
    if (has_proof)
        return waits->proof_pause_ms =
                   relock_clock_sooner(waits->proof_pause_ms + SOON_STEP_MS, SOON_MAX_MS);
    if (waits->look_pause_ms == 0)
        return waits->look_pause_ms = EARLY_MS;
    return waits->look_pause_ms =
               relock_clock_sooner(4 * waits->look_pause_ms, RELOCK_PROOFS_LATER_MS);
}

void relock_proofs_conclude(struct relock_client *client, struct relock_graph *graph)
{
    struct relock_waits *waits = &client->guarded.waits;
    bool is_new = false, has_proof = false;
    struct relock_waiter *at;

    for (at = waits->asleep; at; at = at->wait.next) {
        const struct relock_proof *before = at->wait.proof;

        has_proof |= decide(client, graph, at);
        is_new |= at->wait.proof && at->wait.proof != before;
    }
    waits->look_at_ms = relock_clock_in(pause_after(waits, has_proof, is_new));
    if (!relock_timer_is_set(&client->guarded.timers, &waits->timer) ||
        waits->look_at_ms < waits->timer.due_ms)
        relock_client_set_timer(client, &waits->timer, waits->look_at_ms);
}
