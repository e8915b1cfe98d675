/*
 * Multi locks, several locks as one: each member is acquired as the owner itself would acquire it,
 * one after the other in the order of all, and released in the opposite order. So a member that the
 * owner holds already is nested in, and a call that waits for a member waits in the queue of that
 * member.
 *
 * Of a semaphore, the first level acquires a permit, in a hold that only the composite finds, by
 * its number. Further levels acquire none, and the last one gives it back.
 *
 * The composite's hold counts the levels, one of each member for each, and is lost with the first
 * member that is. How long it is certain its members say.
 */
#include "base/clock.h"
#include "base/status.h"
#include "group/private.h"
#include "lock/call/call.h"
#include "lock/hold/holds.h"
#include "lock/wake/wake.h"

#include <stdio.h>

/* ---- a member ------------------------------------------------------------------------------ */

static bool is_semaphore(const struct relock_bond *bond, size_t member)
{
    return bond->group->members[member]->resource->kind->has_permits;
}

/* Releases one level of a member. `*asks`: the call asks the server; otherwise the I/O thread does
 * so later. Clears it if the server is unreachable, so that the call does not wait for each member.
 */
static int release_level(const struct relock_bond *bond, size_t nth, uint64_t deadline_ms,
                         bool *asks)
{
    struct relock_lock *member = bond->group->members[nth];
    uint64_t number = bond->memberships[nth].number;
    int r = *asks ? relock_release_by(member, bond->owner, number, deadline_ms, false, false)
                  : relock_release_unasked(member, bond->owner, number);

    *asks = *asks && r != RELOCK_E_CONN;
    return r;
}

/* ---- acquiring all members or none --------------------------------------------------------- */

/*
 * Acquiring a multi lock: one member after the other, in the order of all. One time limit
 * applies to all of them. The watchdog renews the members held so far, also those with a fixed
 * lease; if one is lost before all are held, the call starts over.
 */

/* A lease is asked for again once this part of it has passed. */
#define STALE_PART 10

struct taking {
    struct relock_local_call call;
    struct relock_acquire *acquire;
    struct relock_bond *bond; /* a reference */
    bool nests;               /* for a further level */
    bool is_vouched;          /* the owner has a hold on the client of the call */
    struct relock_grant weakest;
};

static struct relock_lock *member_of(const struct taking *taking, size_t nth)
{
    return taking->bond->group->members[nth];
}

/* The limit of a command about a member other than its acquire: the time limit is one for all. */
static uint64_t limit_ms(const struct taking *taking, uint64_t timeout_ms)
{
    return relock_acquire_within_ms(taking->acquire, relock_clock_now_ms(), timeout_ms);
}

/* Whether this level acquires something of the member. */
static bool takes(const struct taking *taking, size_t nth)
{
    return !taking->nests || !is_semaphore(taking->bond, nth);
}

/* From now on the watchdog renews the member, or no longer does. Other levels of its owner may hold
 * it, too: if they have a fixed lease, that begins to run. */
static void keep(const struct taking *taking, size_t nth, bool renewed)
{
    struct relock_client *client = member_of(taking, nth)->client;
    struct relock_guard guard;
    struct relock_hold *hold;

    if (!relock_client_enter(client, false, &guard))
        return;
    hold = relock_bond_find(client, taking->bond, nth);
    if (hold)
        relock_levels_keep(client, hold, renewed);
    relock_client_exit(client, &guard);
}

static void release_collected(const struct taking *taking, size_t n)
{
    bool asks = true;

    while (n-- > 0) {
        uint64_t timeout_ms = member_of(taking, n)->client->options.release_timeout_ms;

        if (takes(taking, n))
            (void)release_level(taking->bond, n, limit_ms(taking, timeout_ms), &asks);
        keep(taking, n, false);
    }
}

static int fail(const struct taking *taking, size_t nth, int result, const char *why)
{
    const struct relock_lock *member = member_of(taking, nth);
    char name[RELOCK_LOG_NAME_MAX];

    taking->acquire->failed_name = relock_lock_name(member);
    (void)snprintf(taking->acquire->why, RELOCK_WHY_MAX, "%s: %s",
                   relock_log_name(relock_lock_named(member)->name, name), why);
    return result;
}

/* A level that is renewed has the permits renewed, whatever the first one asked for. */
static int renew_permits(const struct taking *taking, size_t nth)
{
    struct relock_lock *member = member_of(taking, nth);
    uint64_t until_ms = limit_ms(taking, member->client->options.command_timeout_ms);
    int r = relock_extend_by(member, taking->bond->owner, taking->bond->memberships[nth].number,
                             relock_resource_lease_ms(member->resource), until_ms);

    if (r == RELOCK_OK)
        keep(taking, nth, true);
    return r;
}

/* A further level takes no permits, and needs those of the first one. */
static int look_at_permits(const struct taking *taking, size_t nth)
{
    struct relock_client *client = member_of(taking, nth)->client;
    const struct relock_hold *hold;
    struct relock_guard guard;
    bool is_held, is_renewed;
    int r = RELOCK_OK;

    if (!relock_client_enter(client, false, &guard))
        return fail(taking, nth, guard.result, "these permits were lost");
    hold = relock_bond_find(client, taking->bond, nth);
    is_held = hold && relock_hold_is_held(hold);
    is_renewed = is_held && hold->keeping == RELOCK_HOLD_RENEWED;
    relock_client_exit(client, &guard);
    if (is_held && !is_renewed && taking->acquire->how->lease_ms == 0)
        r = renew_permits(taking, nth);
    if (!is_held || r == RELOCK_NOT_OWNER)
        r = RELOCK_LOST;
    return r == RELOCK_OK ? r : fail(taking, nth, r, "these permits were not renewed, or lost");
}

static int take_member(const struct taking *taking, size_t nth)
{
    struct relock_collector collector = {
        .stop = taking->call.stop,
        .is_vouched = taking->is_vouched,
        .give_up_ms = taking->acquire->give_up_ms,
    };
    struct relock_how how = *taking->acquire->how;
    struct relock_grant grant = {0};
    int r;

    if (!takes(taking, nth))
        return look_at_permits(taking, nth);
    how.owner = taking->bond->owner;
    if (how.wait_ms > 0 && how.wait_ms != RELOCK_FOREVER) {
        how.wait_ms =
            (int64_t)relock_clock_left(relock_clock_now_ms(), taking->acquire->deadline_ms);
        if (how.wait_ms == 0)
            how.wait_ms = 1; /* a wait of 0 would be a try, which has more time */
    }
    r = relock_take(member_of(taking, nth), &how, &collector, &grant);
    if (is_semaphore(taking->bond, nth))
        taking->bond->memberships[nth].number = collector.number;
    if (r == RELOCK_BUSY && !taking->acquire->waiter.tries)
        r = RELOCK_TIMEOUT;
    return r == RELOCK_OK ? r : fail(taking, nth, r, "this member was not acquired");
}

/* A fixed lease starts for all members now, and is no longer renewed. */
static int fix_lease(const struct taking *taking, size_t nth)
{
    struct relock_lock *member = member_of(taking, nth);
    uint64_t number = taking->bond->memberships[nth].number;
    uint64_t lease_ms = taking->acquire->how->lease_ms;
    struct relock_grant grant;
    int r = relock_check_by(member, taking->bond->owner, number, &grant);

    if (r == RELOCK_OK && grant.valid_ms < lease_ms - (lease_ms / STALE_PART))
        r = relock_extend_by(member, taking->bond->owner, number, lease_ms,
                             limit_ms(taking, member->client->options.command_timeout_ms));
    if (r == RELOCK_OK)
        keep(taking, nth, false);
    return r;
}

static int look_at_member(struct taking *taking, size_t nth)
{
    struct relock_grant grant = {0};
    int r = taking->acquire->how->lease_ms > 0 ? fix_lease(taking, nth) : RELOCK_OK;

    if (r == RELOCK_OK)
        r = relock_check_by(member_of(taking, nth), taking->bond->owner,
                            taking->bond->memberships[nth].number, &grant);
    if (r < 0)
        return r;
    if (nth == 0 || grant.valid_ms < taking->weakest.valid_ms)
        taking->weakest.valid_ms = grant.valid_ms;
    if (nth == 0 || grant.acked_replicas < taking->weakest.acked_replicas)
        taking->weakest.acked_replicas = grant.acked_replicas;
    return RELOCK_OK;
}

/* Returns RELOCK_AGAIN if a member was lost, or released by another thread of the owner, meanwhile.
 */
static int take_members(struct taking *taking)
{
    size_t n = taking->bond->group->n;

    for (size_t i = 0; i < n; i++) {
        int r = take_member(taking, i);

        if (r < 0) {
            release_collected(taking, i);
            return r;
        }
    }
    for (size_t i = 0; i < n; i++) {
        int r = look_at_member(taking, i);

        if (r < 0) {
            release_collected(taking, n);
            (void)fail(taking, i, r, "this member was lost while the call waited for others");
            return r == RELOCK_LOST || r == RELOCK_NOT_OWNER ? RELOCK_AGAIN : r;
        }
    }
    return RELOCK_OK;
}

static int take_members_in_time(struct taking *taking)
{
    int r;

    do {
        r = take_members(taking);
    } while (r == RELOCK_AGAIN && relock_clock_now_ms() < taking->acquire->deadline_ms);
    if (r == RELOCK_AGAIN)
        r = taking->acquire->waiter.tries ? RELOCK_E_CONN : RELOCK_TIMEOUT;
    return r;
}

/* A member's client looks at its own holds. So the search for one of another client, which takes
 * time if there are many, is for members elsewhere. */
static bool is_vouched(const struct relock_acquire *acquire, const struct relock_group *group,
                       uint64_t owner) RELOCK_REQUIRES(acquire->client->mutex)
{
    for (size_t i = 0; i < group->n; i++)
        if (group->members[i]->client != acquire->client)
            return relock_drain_has_hold(acquire->client, owner);
    return false;
}

/* One level of each member, as the operations `ask` and `nest`. */
static void collect(struct relock_acquire *acquire, struct relock_bond *bond, bool nests,
                    struct relock_answer *answer) RELOCK_REQUIRES(acquire->client->mutex)
{
    struct taking taking = {.acquire = acquire, .bond = bond, .nests = nests};
    int r = relock_cancel_new(&taking.call.stop);

    if (r == RELOCK_OK) {
        taking.call.owner = bond->owner;
        taking.call.group = nests ? NULL : bond->group;
        taking.is_vouched = is_vouched(acquire, bond->group, bond->owner);
        DL_APPEND(relock_local_of(acquire->client)->calls, &taking.call);
        relock_mutex_unlock(&acquire->client->mutex);
        r = take_members_in_time(&taking);
        relock_mutex_lock(&acquire->client->mutex);
        DL_DELETE(relock_local_of(acquire->client)->calls, &taking.call);
        if (!nests)
            relock_resource_wake_all(acquire->resource); /* see await_other */
        (void)relock_cancel_free(taking.call.stop);
    }
    answer->verdict = r == RELOCK_OK ? RELOCK_VERDICT_DONE : RELOCK_VERDICT_FAILED;
    answer->result = r;
    answer->valid_until_ms = relock_clock_in(taking.weakest.valid_ms);
    answer->acked_replicas = taking.weakest.acked_replicas;
}

/* ---- a level ------------------------------------------------------------------------------- */

/* The hold of the composite has ended, or its last level is being released. */
static void leave_bond(struct relock_hold *hold)
{
    if (hold->data)
        relock_bond_unref(hold->data);
    hold->data = NULL;
}

/* Whether another thread acquires the first level for this owner, and with it permits. */
static bool has_other(const struct relock_acquire *acquire, const struct relock_group *group)
    RELOCK_REQUIRES(acquire->client->mutex)
{
    const struct relock_local_call *call;

    if (!relock_group_has_semaphore(group->members, group->n))
        return false;
    DL_FOREACH(relock_local_of(acquire->client)->calls, call)
    {
        if (call->group == group && call->owner == acquire->waiter.owner)
            return true;
    }
    return false;
}

/* Two first levels would each acquire permits, and the owner could wait for its own. So the second
 * call waits until the first has ended, and then may add a level: RELOCK_AGAIN. */
static int await_other(struct relock_acquire *acquire) RELOCK_REQUIRES(acquire->client->mutex)
{
    const struct relock_group *group = relock_group_of(acquire->resource);

    while (!acquire->waiter.tries && has_other(acquire, group)) {
        if (relock_cancel_is_fired(acquire->how->cancel))
            return RELOCK_CANCELLED;
        if (!relock_drain_admits(acquire->client, acquire->waiter.owner, false))
            return RELOCK_E_CLOSED;
        if (relock_acquire_now_ms(acquire) >= acquire->deadline_ms)
            return RELOCK_TIMEOUT;
        relock_mutex_unlock(&acquire->client->mutex);
        (void)relock_gate_wait(&acquire->waiter.gate, acquire->deadline_ms);
        relock_mutex_lock(&acquire->client->mutex);
        relock_acquire_read_clock(acquire);
    }
    return relock_resource_find(acquire->resource, acquire->waiter.owner) ? RELOCK_AGAIN
                                                                          : RELOCK_OK;
}

/* Allocates the memberships before the acquire, so that a grant cannot fail for memory. */
static void ask(struct relock_acquire *acquire, struct relock_hold *hold,
                struct relock_answer *answer) RELOCK_REQUIRES(acquire->client->mutex)
{
    int r = await_other(acquire);

    if (r == RELOCK_OK) {
        hold->data = relock_bond_new(hold);
        r = hold->data ? RELOCK_OK : RELOCK_E_NOMEM;
    }
    if (r == RELOCK_OK) {
        collect(acquire, hold->data, false, answer);
    } else {
        answer->verdict = RELOCK_VERDICT_FAILED;
        answer->result = r;
    }
    if (answer->verdict == RELOCK_VERDICT_FAILED)
        leave_bond(hold);
}

/* No other thread releases the composite before its members' holds are part of it. */
static void begin(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_bond *bond = relock_bond_ref(hold->data);

    relock_owner_command_begin(hold, 0);
    relock_mutex_unlock(&client->mutex);
    relock_bond_join(bond);
    relock_bond_unref(bond);
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

/* Releases one level of each member, also if that fails for another; permits with the last level.
 * Under no mutex. */
static int release_members(const struct relock_client *client, const struct relock_bond *bond,
                           bool is_last, uint64_t deadline_ms)
{
    bool asks = deadline_ms > 0 && !relock_callback_is_inside();
    int r = RELOCK_OK;

    for (size_t i = bond->group->n; i-- > 0;) {
        int r_member;

        if (!is_last && is_semaphore(bond, i))
            continue;
        r_member = release_level(bond, i, deadline_ms, &asks);
        if (is_missing(client, bond->group->members[i], r_member)) {
            relock_bond_miss(bond, i);
            r_member = RELOCK_LOST;
        }
        r = graver(r, r_member);
    }
    return r;
}

static void release(struct relock_client *client, struct relock_hold *hold, uint64_t deadline_ms,
                    struct relock_answer *answer) RELOCK_REQUIRES(client->mutex)
{
    bool is_last = hold->count == 0;
    struct relock_bond *bond = is_last ? hold->data : relock_bond_ref(hold->data);

    if (is_last)
        hold->data = NULL;
    relock_mutex_unlock(&client->mutex);
    if (is_last)
        relock_bond_part(bond);
    answer->result = release_members(client, bond, is_last, deadline_ms);
    relock_bond_unref(bond);
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
    struct relock_bond *bond = relock_bond_ref(hold->data);

    collect(acquire, bond, true, answer);
    if (answer->verdict == RELOCK_VERDICT_DONE && !relock_hold_is_held(hold)) {
        answer->verdict = RELOCK_VERDICT_FAILED;
        answer->result = RELOCK_LOST;
        relock_mutex_unlock(&acquire->client->mutex);
        (void)release_members(acquire->client, bond, false,
                              relock_acquire_limit_ms(acquire, relock_clock_now_ms()));
        relock_mutex_lock(&acquire->client->mutex);
    }
    relock_bond_unref(bond);
}

/* The levels that are left, without asking. */
static void let_go(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_bond *bond = hold->data; /* NULL: a release has done the rest */
    unsigned count = hold->count;

    (void)now_ms;
    hold->count = 0;
    hold->data = NULL;
    relock_mutex_unlock(&client->mutex);
    if (count > 0)
        relock_bond_part(bond);
    for (; count > 0; count--)
        (void)release_members(client, bond, count == 1, 0);
    if (bond)
        relock_bond_unref(bond);
    relock_mutex_lock(&client->mutex);
    relock_holds_end(client, hold);
}

/* ---- keeping ------------------------------------------------------------------------------- */

static void extend(struct relock_client *client, struct relock_hold *hold, uint64_t lease_ms,
                   uint64_t deadline_ms, struct relock_answer *answer)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_bond *bond = relock_bond_ref(hold->data);

    relock_mutex_unlock(&client->mutex);
    for (size_t i = 0; i < bond->group->n && answer->result == RELOCK_OK; i++) {
        struct relock_lock *member = bond->group->members[i];

        answer->result = relock_extend_by(member, bond->owner, bond->memberships[i].number,
                                          lease_ms, deadline_ms);
        if (is_missing(client, member, answer->result))
            relock_bond_miss(bond, i);
    }
    relock_bond_unref(bond);
    relock_mutex_lock(&client->mutex);
    answer->is_reported = true;
    if (answer->result < 0)
        answer->verdict = RELOCK_VERDICT_FAILED;
}

/* The weakest member says how long; a member that is missing ends the composite. */
static uint64_t check(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_bond *bond = relock_bond_ref(hold->data);
    uint64_t now_ms = relock_clock_now_ms();
    uint64_t valid_ms = UINT64_MAX;
    bool is_held = true;

    relock_mutex_unlock(&client->mutex);
    for (size_t i = 0; i < bond->group->n && is_held; i++) {
        struct relock_lock *member = bond->group->members[i];
        struct relock_grant grant;
        int r = relock_check_by(member, bond->owner, bond->memberships[i].number, &grant);

        is_held = !is_missing(client, member, r);
        if (!is_held)
            relock_bond_miss(bond, i);
        valid_ms = relock_clock_sooner(valid_ms, grant.valid_ms);
    }
    relock_bond_unref(bond);
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
