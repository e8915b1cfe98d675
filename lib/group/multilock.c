/*
 * Multi locks: each member is acquired as the owner itself would acquire it, one after the other in
 * the order of all, and released in the opposite order. So a member that the owner holds already is
 * nested in, and a call that waits for a member waits in the queue of that member.
 *
 * The composite's hold counts the levels, one of each member for each, and is lost with the first
 * member that is. How long it is certain its members say.
 */
#include "group/multilock.h"

#include "base/callback.h"
#include "base/clock.h"
#include "group/collect.h"
#include "group/membership.h"
#include "group/survey.h"
#include "lock/call/release.h"
#include "lock/hold/holds.h"
#include "lock/hold/owner_command.h"

#include <stdlib.h>

/* ---- acquiring ----------------------------------------------------------------------------- */

static void free_memberships(struct relock_hold *hold)
{
    struct relock_membership **memberships = hold->data;

    for (size_t i = 0; memberships && i < relock_group_of(hold->resource)->n; i++)
        free(memberships[i]);
    free(memberships);
    hold->data = NULL;
}

/* Allocates the memberships before the acquire, so that a grant cannot fail for memory. */
static bool make_memberships(struct relock_hold *hold)
{
    size_t n = relock_group_of(hold->resource)->n;
    struct relock_membership **memberships = calloc(n, sizeof(struct relock_membership *));

    hold->data = memberships;
    for (size_t i = 0; memberships && i < n; i++) {
        memberships[i] = calloc(1, sizeof(**memberships));
        if (!memberships[i])
            return false;
    }
    return memberships != NULL;
}

static void ask(struct relock_acquire *acquire, struct relock_hold *hold,
                struct relock_answer *answer) RELOCK_REQUIRES(acquire->client->mutex)
{
    if (make_memberships(hold)) {
        relock_collect(acquire, hold, answer);
    } else {
        answer->verdict = RELOCK_VERDICT_FAILED;
        answer->result = RELOCK_E_NOMEM;
    }
    if (answer->verdict == RELOCK_VERDICT_FAILED)
        free_memberships(hold);
}

/* From now on the composite is lost with each of its members. No other thread releases it before.
 */
static void begin(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_group *group = relock_group_of(hold->resource);
    struct relock_membership **memberships = hold->data;
    uint64_t number = hold->number;
    uint64_t owner = hold->owner;

    hold->data = NULL;
    relock_owner_command_begin(hold, 0);
    relock_mutex_unlock(&client->mutex);
    for (size_t i = 0; i < group->n; i++) {
        memberships[i]->group = relock_group_ref(group);
        memberships[i]->composite = number;
        memberships[i]->member = i;
        if (!relock_group_join(memberships[i], owner)) {
            relock_group_unref(group);
            free(memberships[i]);
            (void)relock_group_miss(group, number, i, owner);
        }
    }
    free(memberships);
    relock_mutex_lock(&client->mutex);
    relock_owner_command_end(client, hold);
    relock_holds_unref(client, hold);
}

/* ---- releasing ----------------------------------------------------------------------------- */

/* The graver of two results of one release. */
static int graver(int a, int b)
{
    if (a == RELOCK_LOST || b == RELOCK_LOST)
        return RELOCK_LOST;
    return a < b ? a : b;
}

/* Whether the member's result says that its hold is over. A client that is being freed says closed
 * for all that it has, and reports no loss. */
static bool is_missing(const struct relock_client *client, const struct relock_lock *member,
                       int result)
{
    return result == RELOCK_LOST || result == RELOCK_NOT_OWNER ||
           (result == RELOCK_E_CLOSED && member->client != client);
}

/* Releases one level of each member, also if that fails for another. Under no mutex. */
static int release_members(const struct relock_client *client, const struct relock_hold *hold,
                           uint64_t deadline_ms)
{
    struct relock_group *group = relock_group_of(hold->resource);
    bool asks = deadline_ms > 0 && !relock_callback_is_inside();
    uint64_t owner = hold->owner;
    int r = RELOCK_OK;

    for (size_t i = group->n; i-- > 0;) {
        struct relock_lock *member = group->members[i];
        int r_member = relock_group_release(member, owner, deadline_ms, &asks);

        if (is_missing(client, member, r_member)) {
            (void)relock_group_miss(group, hold->number, i, owner);
            r_member = RELOCK_LOST;
        }
        r = graver(r, r_member);
    }
    return r;
}

static void release(struct relock_client *client, struct relock_hold *hold, uint64_t deadline_ms,
                    struct relock_answer *answer) RELOCK_REQUIRES(client->mutex)
{
    struct relock_group *group = relock_group_of(hold->resource);
    bool is_last = hold->count == 0;

    free_memberships(hold);
    relock_mutex_unlock(&client->mutex);
    if (is_last)
        relock_group_part(group, hold->number, hold->owner);
    answer->result = release_members(client, hold, deadline_ms);
    relock_mutex_lock(&client->mutex);
    answer->is_reported = true;
    if (answer->result == RELOCK_LOST)
        answer->verdict = RELOCK_VERDICT_GONE;
    else if (answer->result < 0)
        answer->verdict = RELOCK_VERDICT_FAILED;
}

static void drop_level(struct relock_client *client, struct relock_hold *hold, uint64_t deadline_ms)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_answer answer = {0};

    release(client, hold, deadline_ms, &answer);
}

/* A level that was collected while the composite was lost or given up has no owner. */
static void nest(struct relock_acquire *acquire, struct relock_hold *hold,
                 struct relock_answer *answer) RELOCK_REQUIRES(acquire->client->mutex)
{
    relock_collect(acquire, hold, answer);
    if (answer->verdict != RELOCK_VERDICT_DONE || relock_hold_is_held(hold))
        return;
    answer->verdict = RELOCK_VERDICT_FAILED;
    answer->result = RELOCK_LOST;
    relock_mutex_unlock(&acquire->client->mutex);
    (void)release_members(acquire->client, hold,
                          relock_acquire_limit_ms(acquire, relock_clock_now_ms()));
    relock_mutex_lock(&acquire->client->mutex);
}

/* The levels that are left, without asking. */
static void let_go(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_group *group = relock_group_of(hold->resource);
    unsigned count = hold->count;

    (void)now_ms;
    hold->count = 0;
    free_memberships(hold);
    relock_mutex_unlock(&client->mutex);
    if (count > 0)
        relock_group_part(group, hold->number, hold->owner);
    for (; count > 0; count--)
        (void)release_members(client, hold, 0);
    relock_mutex_lock(&client->mutex);
    relock_holds_end(client, hold);
}

/* ---- keeping ------------------------------------------------------------------------------- */

static void extend(struct relock_client *client, struct relock_hold *hold, uint64_t lease_ms,
                   uint64_t deadline_ms, struct relock_answer *answer)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_group *group = relock_group_of(hold->resource);

    relock_mutex_unlock(&client->mutex);
    for (size_t i = 0; i < group->n && answer->result == RELOCK_OK; i++) {
        answer->result = relock_extend_by(group->members[i], hold->owner, lease_ms, deadline_ms);
        if (is_missing(client, group->members[i], answer->result))
            (void)relock_group_miss(group, hold->number, i, hold->owner);
    }
    relock_mutex_lock(&client->mutex);
    answer->is_reported = true;
    if (answer->result < 0)
        answer->verdict = RELOCK_VERDICT_FAILED;
}

/* The weakest member says how long; a member that is missing ends the composite. */
static uint64_t check(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_group *group = relock_group_of(hold->resource);
    uint64_t now_ms = relock_clock_now_ms();
    uint64_t valid_ms = UINT64_MAX;
    bool is_held = true;

    relock_mutex_unlock(&client->mutex);
    for (size_t i = 0; i < group->n && is_held; i++) {
        struct relock_grant grant;
        int r = relock_check(group->members[i], hold->owner, &grant);

        is_held = !is_missing(client, group->members[i], r);
        if (!is_held)
            (void)relock_group_miss(group, hold->number, i, hold->owner);
        valid_ms = relock_clock_sooner(valid_ms, grant.valid_ms);
    }
    relock_mutex_lock(&client->mutex);
    return relock_clock_after(now_ms, valid_ms);
}

/* ---- kind ---------------------------------------------------------------------------------- */

static const struct relock_operations operations = {
    .ask = ask,
    .begin = begin,
    .nest = nest,
    .release = release,
    .drop_level = drop_level,
    .extend = extend,
    .inspect = relock_survey_run,
    .check = check,
    .let_go = let_go,
};

const struct relock_kind relock_kind_multi = {
    .is_composite = true,
    .is_collection = true,
    .is_shared = true,
    .operations = &operations,
};
