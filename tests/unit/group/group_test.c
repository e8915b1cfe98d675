/* How the groups of multi and red locks begin and end; what red locks hear, and when an attempt is
 * decided. */
#include "base/clock.h"
#include "group/private.h"
#include "lock/hold/holds.h"
#include "support/child.h"
#include "support/fixture.h"

#include <stdlib.h>

/* A client that never reaches a server. */
static struct relock_client *lone_client(void)
{
    struct relock_options options = {
        .url = "unix:///nowhere/relock", .flags = RELOCK_LAZY, .log_level = RELOCK_LOG_ERROR};
    struct relock_client *client;

    assert_int_equal(relock_client_new(&options, &client), RELOCK_OK);
    return client;
}

static int reap(struct child *parent, void *arg)
{
    (void)parent;
    (void)arg;
    relock_group_reap();
    return EXIT_SUCCESS;
}

/* In a child the members and the client belong to the parent, whose threads may have used them. */
static void a_child_reaps_groups_of_its_parent_without_a_mutex(void **state)
{
    struct relock_client *client = lone_client();
    struct relock_group *group;
    struct relock_lock *member;
    struct relock_lock *lock;
    struct child *child;

    (void)state;
    assert_int_equal(relock_lock_new(client, "a", &member), RELOCK_OK);
    assert_int_equal(relock_multilock_new(&member, 1, &lock), RELOCK_OK);
    group = relock_group_ref(relock_group_of(lock->resource));
    relock_lock_free(lock);
    relock_lock_free(member);

    relock_mutex_lock(&client->mutex); /* the I/O thread frees nothing meanwhile */
    relock_group_unref(group);
    child = child_start(reap, NULL);
    relock_mutex_unlock(&client->mutex);
    assert_int_equal(child_wait(child, SOON_MS), EXIT_SUCCESS);
    relock_client_free(client);
}

/* The linker replaces the function by this one: a release is published at the worst moment. */
int __wrap_relock_group_add_listeners(struct relock_group *group);
int __real_relock_group_add_listeners(struct relock_group *group);

int __wrap_relock_group_add_listeners(struct relock_group *group)
{
    int r = __real_relock_group_add_listeners(group);

    for (size_t i = 0; i < group->n && r == RELOCK_OK; i++) {
        struct relock_lock *member = group->members[i];

        relock_mutex_lock(&member->client->mutex);
        relock_listeners_hear(member->client, member->resource, RELOCK_HEARD_MESSAGE);
        assert_non_null(member->client->guarded.tasks);
        relock_listeners_deliver(member->client);
        relock_mutex_unlock(&member->client->mutex);
    }
    return r;
}

/* ---- messages to a red lock ---------------------------------------------------------------- */

struct trio {
    struct relock_lock *members[3];
    struct relock_client *clients[3];
    struct relock_lock *lock;
    struct relock_group *group;
};

static struct trio trio_new(void)
{
    struct trio trio;

    for (int i = 0; i < 3; i++) {
        trio.clients[i] = lone_client();
        assert_int_equal(relock_lock_new(trio.clients[i], "a", &trio.members[i]), RELOCK_OK);
    }
    assert_int_equal(relock_redlock_new(trio.members, 3, &trio.lock), RELOCK_OK);
    trio.group = relock_group_of(trio.lock->resource);
    return trio;
}

static void trio_free(struct trio *trio)
{
    relock_lock_free(trio->lock);
    for (int i = 0; i < 3; i++) {
        relock_lock_free(trio->members[i]);
        relock_client_free(trio->clients[i]);
    }
}

/* Whether a message from the first server is a signal. */
static bool hears(struct trio *trio)
{
    struct relock_lock *member = trio->group->members[0];
    bool is_due;

    relock_mutex_lock(&member->client->mutex);
    relock_listeners_hear(member->client, member->resource, RELOCK_HEARD_MESSAGE);
    is_due = member->client->guarded.tasks != NULL;
    relock_listeners_deliver(member->client);
    relock_mutex_unlock(&member->client->mutex);
    return is_due;
}

static void ask(struct trio *trio, uint64_t number)
{
    struct relock_client *client = trio->group->members[0]->client;

    relock_mutex_lock(&client->mutex);
    relock_group_asked(trio->group, 0, number);
    relock_mutex_unlock(&client->mutex);
}

/* Whether the answer of the first server is a signal. */
static bool answer(struct trio *trio, uint64_t number, bool is_granted)
{
    struct relock_client *client = trio->group->members[0]->client;
    bool is_retry;

    relock_mutex_lock(&client->mutex);
    is_retry = relock_group_answered(trio->group, 0, number, is_granted);
    relock_mutex_unlock(&client->mutex);
    return is_retry;
}

static void a_release_is_harmless_while_a_red_lock_is_being_made(void **state)
{
    struct trio trio = trio_new();

    (void)state;
    trio_free(&trio);
}

static void a_message_is_a_signal_though_nobody_listens_yet(void **state)
{
    struct trio trio = trio_new();

    (void)state;
    ask(&trio, 1);
    assert_false(answer(&trio, 1, false));
    assert_true(hears(&trio));
    trio_free(&trio);
}

static void a_message_to_one_that_is_asking_is_a_signal_once_it_is_refused(void **state)
{
    struct trio trio = trio_new();

    (void)state;
    ask(&trio, 1);
    assert_false(hears(&trio));
    assert_true(answer(&trio, 1, false));
    trio_free(&trio);
}

static void a_late_grant_is_not_the_last_word(void **state)
{
    struct trio trio = trio_new();

    (void)state;
    ask(&trio, 1);
    ask(&trio, 2);
    assert_false(answer(&trio, 1, true));
    assert_false(hears(&trio));
    assert_true(answer(&trio, 2, false));
    trio_free(&trio);
}

/* ---- rounds of a red lock ------------------------------------------------------------------ */

/* All servers are asked for the votes of a hold. The tally ends with the hold. */
static struct relock_tally *round_new(struct trio *trio)
{
    struct relock_client *coordinator = trio->group->coordinator;
    struct relock_hold *hold;
    struct relock_tally *tally;

    relock_mutex_lock(&coordinator->mutex);
    hold = relock_holds_new(coordinator, trio->lock->resource, 1, false);
    assert_non_null(hold);
    tally = relock_tally_new(coordinator, hold);
    assert_non_null(tally);
    hold->data = tally;
    relock_group_is_under(tally->group, coordinator);
    (void)relock_tally_begin(tally, 3);
    for (int i = 0; i < 3; i++)
        tally->guarded.votes[i].is_asked = true;
    relock_mutex_unlock(&coordinator->mutex);
    return tally;
}

static void round_free(struct trio *trio, const struct relock_tally *tally)
{
    struct relock_client *coordinator = trio->group->coordinator;

    relock_mutex_lock(&coordinator->mutex);
    relock_holds_end(coordinator, tally->guarded.composite);
    relock_mutex_unlock(&coordinator->mutex);
    trio_free(trio);
}

static void count(struct relock_tally *tally, size_t member, enum relock_vote_answer answer)
{
    relock_tally_count(tally, tally->guarded.round,
                       &(struct relock_tally_report){.member = member, .answer = answer});
}

/* Whether the thread of the round was woken. */
static bool is_decided(struct relock_tally *tally)
{
    return relock_gate_wait(&tally->gate, relock_clock_now_ms());
}

static void two_of_three_refusals_decide(void **state)
{
    struct trio trio = trio_new();
    struct relock_tally *tally = round_new(&trio);

    (void)state;
    count(tally, 1, RELOCK_ANSWER_NO);
    assert_false(is_decided(tally));
    count(tally, 2, RELOCK_ANSWER_NO);
    assert_true(is_decided(tally));
    round_free(&trio, tally);
}

/* The others may refuse it for the owner before, whose releases are on their way. */
static void one_whose_turn_it_is_awaits_the_sequencer(void **state)
{
    struct trio trio = trio_new();
    struct relock_tally *tally = round_new(&trio);

    (void)state;
    tally->guarded.is_told = true;
    count(tally, 1, RELOCK_ANSWER_NO);
    count(tally, 2, RELOCK_ANSWER_NO);
    assert_false(is_decided(tally));
    count(tally, RELOCK_SEQUENCER, RELOCK_ANSWER_YES);
    assert_true(is_decided(tally));
    round_free(&trio, tally);
}

static void the_others_decide_once_the_sequencer_was_silent_for_a_while(void **state)
{
    struct trio trio = trio_new();
    struct relock_tally *tally = round_new(&trio);
    struct relock_client *coordinator = trio.group->coordinator;

    (void)state;
    tally->guarded.is_told = true;
    count(tally, 1, RELOCK_ANSWER_NO);
    count(tally, 2, RELOCK_ANSWER_NO);
    relock_mutex_lock(&coordinator->mutex);
    relock_group_is_under(tally->group, coordinator);
    relock_tally_end_turn(tally);
    relock_mutex_unlock(&coordinator->mutex);
    assert_true(is_decided(tally));
    round_free(&trio, tally);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_reaps_groups_of_its_parent_without_a_mutex),
        cmocka_unit_test(a_release_is_harmless_while_a_red_lock_is_being_made),
        cmocka_unit_test(a_message_is_a_signal_though_nobody_listens_yet),
        cmocka_unit_test(a_message_to_one_that_is_asking_is_a_signal_once_it_is_refused),
        cmocka_unit_test(a_late_grant_is_not_the_last_word),
        cmocka_unit_test(two_of_three_refusals_decide),
        cmocka_unit_test(one_whose_turn_it_is_awaits_the_sequencer),
        cmocka_unit_test(the_others_decide_once_the_sequencer_was_silent_for_a_while),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
