#include "lock/hold/holds.h"
#include "lock/hold/private.h"

#include "base/clock.h"
#include "lock/state/kind.h"
#include "lock/state/step.h"

/* ---- a command of the owner ---------------------------------------------------------------- */

void relock_owner_command_begin(struct relock_hold *hold, uint64_t lease_ms)
{
    hold->busy = true;
    (void)relock_holds_ref(hold);
    hold->lease_ms = relock_clock_later(hold->lease_ms, lease_ms);
}

/* The hold is busy. Meanwhile another thread may change `keeping` again. */
static void pass_keeping_on(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex)
{
    const struct relock_operations *operations = hold->resource->kind->operations;

    while (hold->keeping_dirty) {
        hold->keeping_dirty = false;
        if (operations->keep)
            operations->keep(client, hold, hold->keeping != RELOCK_HOLD_FIXED);
    }
}

void relock_owner_command_end(struct relock_client *client, struct relock_hold *hold)
{
    pass_keeping_on(client, hold);
    hold->busy = false;
    relock_cond_broadcast(&client->changed);
    relock_step_pass(hold);
    if (hold->state == RELOCK_HOLD_SETTLING || /* lost, and its last level released in on_lost */
        (hold->state == RELOCK_HOLD_LOST && hold->is_left))
        relock_holds_arm(client, hold, relock_clock_now_ms());
    else if (hold->state == RELOCK_HOLD_ENDED ||
             (hold->state == RELOCK_HOLD_LOST && hold->notice != RELOCK_HOLD_TO_TAKE_UP))
        relock_owner_command_release_lost(client, hold); /* which other threads left to this one */
}

void relock_owner_command_release_lost(struct relock_client *client, struct relock_hold *hold)
{
    const struct relock_operations *operations = hold->resource->kind->operations;

    if (operations->lost && !hold->busy)
        operations->lost(client, hold);
}

/* ---- levels and leases --------------------------------------------------------------------- */

/*
 * A hold that began for a collecting call belongs to its owner, too, once that adds a level by
 * itself. From then on a loss is reported to the client's on_lost, as nesting has no callback of
 * its own.
 */
static void become_own(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex)
{
    hold->is_own = true;
    relock_holds_tell(client, hold, &client->default_told);
}

/* A command that sets the count of levels. Another thread may drop a level while it is in flight.
 */
void relock_levels_begin(struct relock_hold *hold, uint64_t lease_ms)
{
    relock_owner_command_begin(hold, lease_ms);
    hold->count_dirty = false;
}

/* The command has ended. Returns its result, or RELOCK_LOST when the hold is lost by now. */
static int conclude(struct relock_client *client, struct relock_hold *hold,
                    const struct relock_answer *answer) RELOCK_REQUIRES(client->mutex)
{
    enum relock_verdict verdict = answer->verdict;

    if (verdict == RELOCK_VERDICT_FAILED)
        hold->count_dirty = true;
    relock_owner_command_end(client, hold);
    if (relock_hold_is_held(hold) && relock_verdict_loss(verdict))
        relock_holds_lose(client, hold, relock_verdict_loss(verdict), relock_clock_now_ms());
    return relock_hold_is_held(hold) ? answer->result : RELOCK_LOST;
}

static void add(struct relock_acquire *acquire, struct relock_hold *hold, uint64_t valid_until_ms)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    hold->count++;
    if (hold->observer_tells && !acquire->stop)
        become_own(acquire->client, hold);
    relock_holds_prolong(acquire->client, hold, valid_until_ms);
    acquire->valid_until_ms = valid_until_ms;
    acquire->hold = relock_holds_ref(hold);
}

/* If it is not known here, the operation may have named it. */
static void name_failed(struct relock_acquire *acquire, const struct relock_hold *hold)
{
    const struct relock_resource *lost = relock_hold_lost_on(hold);

    if (lost)
        acquire->failed_name = relock_resource_given(lost);
}

int relock_levels_add_begin(struct relock_acquire *acquire, struct relock_hold *hold,
                            struct relock_answer *answer)
{
    uint64_t now_ms = relock_acquire_now_ms(acquire);

    *answer = (struct relock_answer){.sent_ms = now_ms, .why = acquire->why};
    relock_holds_check_time(acquire->client, hold, now_ms);
    if (hold->state == RELOCK_HOLD_LOST) {
        name_failed(acquire, hold);
        return RELOCK_LOST;
    }
    if (acquire->how->flags & RELOCK_NON_REENTRANT)
        return relock_acquire_refuse(acquire, RELOCK_WHY_NESTED);
    relock_levels_begin(hold, acquire->lease_ms);
    return RELOCK_OK;
}

int relock_levels_add_end(struct relock_acquire *acquire, struct relock_hold *hold,
                          const struct relock_answer *answer)
{
    int r;

    relock_acquire_read_clock(acquire);
    if (answer->verdict == RELOCK_VERDICT_DONE && acquire->how->lease_ms == 0)
        relock_holds_keep(acquire->client, hold, RELOCK_HOLD_RENEWED);
    r = conclude(acquire->client, hold, answer);
    if (r == RELOCK_OK)
        add(acquire, hold, answer->valid_until_ms);
    else if (r == RELOCK_LOST)
        name_failed(acquire, hold);
    relock_holds_unref(acquire->client, hold);
    return r;
}

int relock_levels_add(struct relock_acquire *acquire, struct relock_hold *hold)
{
    struct relock_answer answer;
    int r = relock_levels_add_begin(acquire, hold, &answer);

    if (r < 0)
        return r;
    hold->resource->kind->operations->nest(acquire, hold, &answer);
    return relock_levels_add_end(acquire, hold, &answer);
}

int relock_levels_remove_end(struct relock_lock *lock, struct relock_hold *hold,
                             const struct relock_answer *answer)
{
    int r = conclude(lock->client, hold, answer);

    if (r < 0 && r != RELOCK_LOST && !answer->is_reported)
        relock_lock_log_under(lock->client, lock, hold->owner,
                              "one level released here; the owner's next command will update Redis",
                              r, answer->why);
    relock_holds_unref(lock->client, hold);
    return r;
}

int relock_levels_remove(struct relock_lock *lock, struct relock_hold *hold, uint64_t deadline_ms)
{
    char why[RELOCK_WHY_MAX] = "";
    struct relock_answer answer = {.why = why};

    relock_levels_begin(hold, 0);
    hold->resource->kind->operations->release(lock->client, hold, deadline_ms, &answer);
    return relock_levels_remove_end(lock, hold, &answer);
}

int relock_levels_extend(struct relock_lock *lock, struct relock_hold *hold, uint64_t lease_ms,
                         uint64_t deadline_ms)
{
    char why[RELOCK_WHY_MAX] = "";
    struct relock_answer answer = {.sent_ms = relock_clock_now_ms(), .why = why};
    int r;

    relock_levels_begin(hold, lease_ms);
    hold->resource->kind->operations->extend(lock->client, hold, lease_ms, deadline_ms, &answer);
    r = conclude(lock->client, hold, &answer);
    if (r == RELOCK_OK)
        relock_holds_prolong(lock->client, hold, answer.valid_until_ms);
    else if (r != RELOCK_LOST && !answer.is_reported)
        relock_lock_log_under(lock->client, lock, hold->owner, "not extended", r, why);
    relock_holds_unref(lock->client, hold);
    return r;
}

void relock_levels_keep(struct relock_client *client, struct relock_hold *hold, bool renewed)
{
    if (!renewed && hold->keeping != RELOCK_HOLD_KEPT)
        return;
    relock_holds_keep(client, hold, renewed ? RELOCK_HOLD_RENEWED : RELOCK_HOLD_FIXED);
    if (hold->busy)
        return; /* the end of that command passes it on */
    relock_owner_command_begin(hold, 0);
    relock_owner_command_end(client, hold);
    relock_holds_unref(client, hold);
}
