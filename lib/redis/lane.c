#include "redis/lane.h"

#include "base/clock.h"
#include "base/hash.h"
#include "redis/driver.h"

void relock_lane_init(struct relock_lane *lane, const struct relock_server *server)
{
    *lane = (struct relock_lane){0};
    relock_mutex_init(&lane->mutex);
    relock_link_init(&lane->driver.link, server);
    atomic_init(&lane->retired, false);
}

void relock_lane_deinit(struct relock_lane *lane)
{
    relock_link_deinit(&lane->driver.link);
    relock_mutex_deinit(&lane->mutex);
}

void relock_lane_abandon(struct relock_lane *lane)
{
    relock_link_abandon(&lane->driver.link);
}

uint64_t relock_lane_reconnects(struct relock_lane *lane)
{
    return atomic_load(&lane->driver.link.reconnects);
}

void relock_lane_retire(struct relock_lane *lane)
{
    atomic_store(&lane->retired, true);
}

const struct relock_server *relock_lane_server(const struct relock_lane *lane)
{
    return lane->driver.link.server;
}

const char *relock_lane_label(const struct relock_lane *lane)
{
    return lane->driver.link.server->label;
}

/* ---- asking -------------------------------------------------------------------------------- */

/* Its time is over. Returns whether it was still in the queue. */
static bool leave_queue(struct relock_lane *lane, struct relock_question *question)
{
    bool leaves;

    relock_mutex_lock(&lane->mutex);
    leaves = question->queued && !question->drives;
    if (leaves)
        relock_driver_end_unsent(lane, question);
    relock_mutex_unlock(&lane->mutex);
    return leaves;
}

/* What is under way ends by the driver: only the gate says that it does not look any more. */
static void wait_for_gate(struct relock_lane *lane, struct relock_question *question)
{
    if (!relock_gate_wait(&question->gate, question->deadline_ms) && !leave_queue(lane, question))
        (void)relock_gate_wait(&question->gate, RELOCK_NEVER);
}

static bool enter(struct relock_lane *lane, struct relock_question *question)
{
    bool drives;

    relock_mutex_lock(&lane->mutex);
    drives = !lane->guarded.driven;
    lane->guarded.driven = true;
    if (!drives)
        relock_gate_init(&question->gate);
    DL_APPEND(lane->guarded.queue, question);
    relock_mutex_unlock(&lane->mutex);
    return drives;
}

int relock_lane_ask(struct relock_lane *lane, struct relock_question *question,
                    uint64_t deadline_ms)
{
    question->reply = NULL;
    question->before = NULL;
    question->sent = false;
    question->origin = NULL;
    question->orphan = NULL;
    question->is_orphan = false;
    question->deadline_ms = deadline_ms;
    question->n_left = question->n_replies;
    question->ended = false;
    question->drives = false;
    question->queued = true;

    if (!enter(lane, question))
        wait_for_gate(lane, question);
    relock_driver_drive(lane, question);
    return question->result;
}
