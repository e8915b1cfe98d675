/*
 * Client tracking: looks, checks and reports that come at a bad moment, or not at all. The first
 * command about a hold is a look: HEXISTS, or GETRANGE for a plain lock.
 */
#include "faults.h"

#include "base/clock.h"
#include "lock/state/lock.h"
#include "lock/state/resource.h"
#include "support/kinds.h"
#include "support/plain_peer.h"
#include "support/sides.h"

#define AT_ONCE_MS 5000 /* a machine that stands still */
#define HUGE_BYTES (2 << 20)

/* Nothing ends by time. */
static struct relock_client *calm(struct faults *t)
{
    return faults_calm_client(t, slow_ms(10000));
}

static void assert_lost(struct faults *t, struct relock_lock *lock)
{
    assert_true(losses_wait(t->f->losses, 1, slow_ms(AT_ONCE_MS)));
    assert_int_equal(relock_valid_ms(lock), 0);
    assert_result(relock_unlock(lock), RELOCK_LOST);
}

/* ---- looks --------------------------------------------------------------------------------- */

/* The lock is free, or another owner has it, when the look arrives. */
static void assert_lost_before_its_look(struct faults *t, enum kind_no kind, bool is_taken)
{
    const char *words = kind == KIND_PLAIN ? "GETRANGE" : "HEXISTS";
    struct proxy_rule *look = proxy_next(t->proxy, PROXY_HOLD, words);
    struct relock_lock *lock;

    kind_choose(kind);
    lock = kind_lock(t->f, calm(t), "orders");
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(proxy_met(look, 1));
    if (is_taken)
        assert_true(kind_peer_usurp(t->f, "orders"));
    else
        probe_int(t->f->probe, "DEL orders");
    proxy_let_go(look);
    assert_lost(t, lock);
    assert_int_equal(losses_get(t->f->losses, 0).reason,
                     is_taken ? RELOCK_LOST_TAKEN : RELOCK_LOST_GONE);
    assert_int_equal(proxy_count(t->proxy, words), 1);
    if (is_taken)
        assert_true(kind_peer_unlock(t->f, "orders"));
}

static void a_hold_that_is_deleted_before_its_look_is_lost(void **state)
{
    assert_lost_before_its_look(*state, KIND_REENTRANT, false);
}

static void a_hold_that_is_taken_before_its_look_is_lost(void **state)
{
    assert_lost_before_its_look(*state, KIND_REENTRANT, true);
}

static void a_plain_hold_that_is_deleted_before_its_look_is_lost(void **state)
{
    assert_lost_before_its_look(*state, KIND_PLAIN, false);
}

static void a_plain_hold_that_is_taken_before_its_look_is_lost(void **state)
{
    assert_lost_before_its_look(*state, KIND_PLAIN, true);
}

/* The look is refused: WRONGTYPE. */
static void assert_lost_when_replaced_before_its_look(struct faults *t, enum kind_no kind)
{
    const char *words = kind == KIND_PLAIN ? "GETRANGE" : "HEXISTS";
    struct proxy_rule *look = proxy_next(t->proxy, PROXY_HOLD, words);
    struct relock_lock *lock;

    kind_choose(kind);
    lock = kind_lock(t->f, calm(t), "orders");
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(proxy_met(look, 1));
    kind_replace(t->f, "orders", 0);
    proxy_let_go(look);
    assert_lost(t, lock);
    assert_int_equal(losses_get(t->f->losses, 0).reason, RELOCK_LOST_TAKEN);
    kind_assert_replaced(t->f, "orders", 0);
}

static void a_hold_that_is_replaced_before_its_look_is_lost(void **state)
{
    assert_lost_when_replaced_before_its_look(*state, KIND_REENTRANT);
}

static void a_plain_hold_that_is_replaced_before_its_look_is_lost(void **state)
{
    assert_lost_when_replaced_before_its_look(*state, KIND_PLAIN);
}

/* The value still begins with the token. The reply to the look, and to what follows it, is short:
 * no connection ends, so those for renewals and messages are not made again. */
static void a_plain_hold_that_becomes_huge_before_its_look_is_lost(void **state)
{
    struct faults *t = *state;
    struct proxy_rule *look = proxy_next(t->proxy, PROXY_HOLD, "GETRANGE");
    struct relock_client *client = calm(t);
    struct relock_lock *lock;

    kind_choose(KIND_PLAIN);
    lock = kind_lock(t->f, client, "orders");
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(proxy_met(look, 1));
    assert_int_equal(probe_int(t->f->probe, "SETRANGE orders %d x", HUGE_BYTES - 1), HUGE_BYTES);
    proxy_let_go(look);
    assert_lost(t, lock);
    assert_int_equal(losses_get(t->f->losses, 0).reason, RELOCK_LOST_TAKEN);
    assert_int_equal(log_count(t->f->log, "longer reply"), 0);
    assert_int_equal(stats_of(client).reconnects, 0);
    assert_int_equal(probe_int(t->f->probe, "DEL orders"), 1);
}

/* Its field is there, so only the script tells: the keys of its levels are gone. */
static void a_reader_without_levels_is_lost_before_it_is_tracked(void **state)
{
    struct faults *t = *state;
    struct proxy_rule *tracked = proxy_next(t->proxy, PROXY_HOLD, "CLIENT CACHING");
    struct sides ours = sides_of(t->f, calm(t));
    struct relock_holder reader;

    assert_result(relock_lock(ours.read), RELOCK_OK);
    assert_true(proxy_met(tracked, 1));
    reader = sides_holder(ours.read);
    assert_int_equal(probe_int(t->f->probe, "DEL {orders}:%s:rwlock_timeout:1", reader.id), 1);
    proxy_let_go(tracked);
    assert_lost(t, ours.read);
    assert_int_equal(probe_int(t->f->probe, "DEL orders"), 1);
}

/* A later report tells of the loss. */
static void a_look_that_is_cut_off_is_followed_by_a_check(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = fixture_lock(t->f, calm(t), "orders");
    struct proxy_rule *look = proxy_next(t->proxy, PROXY_CUT_UNANSWERED, "HEXISTS");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(proxy_met(look, 1));
    assert_true(proxy_counts(t->proxy, "check", 1));
    let_pass(50);
    assert_int_equal(losses_count(t->f->losses), 0);
    probe_int(t->f->probe, "DEL orders");
    assert_lost(t, lock);
}

/* The user loses the right, and gets it back: no report has told of the loss. */
static void a_look_that_is_refused_is_followed_by_checks(void **state)
{
    struct faults *t = *state;
    struct proxy_rule *look = proxy_next(t->proxy, PROXY_HOLD, "HEXISTS");
    struct relock_lock *lock;

    faults_worker(t, "~* &* +@all");
    lock = fixture_lock(t->f,
                        faults_worker_client(t,
                                             &(struct relock_options){
                                                 .recheck_ms = LONG_MS,
                                                 .watchdog_timeout_ms = LONG_MS,
                                                 .command_timeout_ms = slow_ms(10000),
                                             }),
                        "orders");
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(proxy_met(look, 1));
    assert_int_equal(probe_int(t->f->probe, "ACL SETUSER " WORKER " -hexists"), 0);
    proxy_let_go(look);
    assert_true(proxy_counts(t->proxy, "check", 2));
    assert_int_equal(losses_count(t->f->losses), 0);
    probe_int(t->f->probe, "DEL orders");
    assert_int_equal(probe_int(t->f->probe, "ACL SETUSER " WORKER " +hexists"), 0);
    assert_lost(t, lock);
}

/* ---- reports ------------------------------------------------------------------------------- */

/* The reply to the command says that the lock is held, and is older. */
static void assert_lost_before_the_reply(struct faults *t, struct relock_lock *lock,
                                         struct proxy_rule *command)
{
    assert_true(proxy_met(command, 1));
    let_pass(50);
    probe_int(t->f->probe, "DEL orders");
    let_pass(50); /* the report */
    proxy_let_go(command);
    assert_lost(t, lock);
}

static void a_report_before_the_reply_to_a_look_counts(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = fixture_lock(t->f, calm(t), "orders");
    struct proxy_rule *look = proxy_next(t->proxy, PROXY_HOLD_REPLY, "HEXISTS");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_lost_before_the_reply(t, lock, look);
}

static void a_report_before_the_reply_to_a_check_counts(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = fixture_lock(t->f, calm(t), "orders");
    struct proxy_rule *check = proxy_next(t->proxy, PROXY_HOLD_REPLY, "check");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(proxy_counts(t->proxy, "HEXISTS", 1));
    probe_int(t->f->probe, "PEXPIRE orders %d", LONG_MS - 1);
    assert_lost_before_the_reply(t, lock, check);
}

/* Its report is lost. */
static void a_loss_without_a_subscriber_is_found_when_there_is_one(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = fixture_lock(t->f, calm(t), "orders");
    struct proxy_rule *subscribe;

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(proxy_counts(t->proxy, "HEXISTS", 1));
    subscribe = proxy_next(t->proxy, PROXY_HOLD, "SUBSCRIBE");
    proxy_cut(t->proxy, "SUBSCRIBE");
    assert_true(proxy_met(subscribe, 1));
    probe_int(t->f->probe, "DEL orders");
    let_pass(50);
    assert_int_equal(losses_count(t->f->losses), 0);
    proxy_let_go(subscribe);
    assert_lost(t, lock);
}

static void a_loss_without_a_pipeline_is_found_when_there_is_one(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = fixture_lock(t->f, calm(t), "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(proxy_counts(t->proxy, "HEXISTS", 1));
    proxy_refuse(t->proxy, true);
    proxy_cut(t->proxy, "CLIENT TRACKING");
    probe_int(t->f->probe, "DEL orders");
    proxy_refuse(t->proxy, false);
    assert_lost(t, lock);
}

/* The server tracks again when it is busy no more. Without that, only the next renewal would find
 * the loss. */
static void assert_tracked_after_a_refusal(struct faults *t, const char *words)
{
    struct proxy_rule *command = proxy_next(t->proxy, PROXY_HOLD, words);
    struct relock_lock *lock = fixture_lock(t->f, calm(t), "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    faults_meet_busy(t, command);
    probe_int(t->f->probe, "DEL orders");
    assert_lost(t, lock);
    assert_int_equal(log_count(t->f->log, "CLIENT TRACKING"), 0);
}

static void tracking_that_a_busy_server_refused_is_turned_on_later(void **state)
{
    assert_tracked_after_a_refusal(*state, "CLIENT TRACKING");
}

static void a_tracked_command_that_a_busy_server_refused_is_repeated(void **state)
{
    assert_tracked_after_a_refusal(*state, "CLIENT CACHING");
}

/* A check that wrote would be a change for the other one, and so on for ever. The writes must be a
 * millisecond apart: else the lease has not become shorter. */
static void two_readers_do_not_answer_each_other(void **state)
{
    struct faults *t = *state;
    struct relock_lock *ours = fixture_lock_of(t->f, calm(t), "orders", relock_rdlock_new);
    struct relock_lock *theirs = fixture_lock_of(t->f, calm(t), "orders", relock_rdlock_new);
    size_t before;

    proxy_delay(t->proxy, 2);
    assert_result(relock_lock(ours), RELOCK_OK);
    assert_result(relock_lock(theirs), RELOCK_OK);
    assert_true(proxy_counts(t->proxy, "read_check", 2));
    let_pass(300);
    before = proxy_count(t->proxy, "read_check");
    let_pass(1000);
    print_message("%d, %d\n", (int)before, (int)proxy_count(t->proxy, "read_check"));
    assert_int_equal(proxy_count(t->proxy, "read_check"), before);
    probe_text(t->f->probe, "FLUSHALL");
    assert_true(losses_wait(t->f->losses, 2, slow_ms(AT_ONCE_MS)));
    proxy_delay(t->proxy, 0);
    assert_result(relock_unlock(ours), RELOCK_LOST);
    assert_result(relock_unlock(theirs), RELOCK_LOST);
}

/* ---- waiters for plain locks --------------------------------------------------------------- */

static struct relock_lock *plainlock(struct faults *t)
{
    return plain_handle(t->f, calm(t));
}

/* A peer holds the lock, and the waiter sleeps until Redis reports a change. */
static struct actor *falls_asleep(struct faults *t, struct relock_lock *lock)
{
    struct actor *waiting = actor_start();
    size_t n_read = proxy_count(t->proxy, "plain_watch");

    assert_true(plain_peer_lock(t->f->probe, "orders", PLAIN_PEER, LONG_MS));
    actor_begin_lock(waiting, lock);
    assert_true(proxy_counts(t->proxy, "plain_watch", n_read + 1));
    let_pass(200);
    return waiting;
}

/* The pauses between two polls are longer than the test. */
static void a_report_before_the_reply_to_a_waiter_counts(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = plainlock(t);
    struct actor *waiting = falls_asleep(t, lock);
    struct proxy_rule *read;

    assert_true(plain_peer_unlock(t->f->probe, "orders", PLAIN_PEER));
    assert_gets_in(waiting, lock);
    assert_result(relock_spinlock_set_pauses(lock, LONG_MS, LONG_MS), RELOCK_OK);
    read = proxy_next(t->proxy, PROXY_HOLD_REPLY, "plain_watch");
    waiting = falls_asleep(t, lock);
    assert_true(plain_peer_unlock(t->f->probe, "orders", PLAIN_PEER));
    let_pass(50);
    proxy_let_go(read);
    assert_gets_in(waiting, lock);
}

/* It was released between the refusal and the read, so nothing more is reported. */
static void a_lock_that_is_free_when_it_is_read_is_a_signal(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = plainlock(t);
    struct actor *waiting = falls_asleep(t, lock);
    struct proxy_rule *read;

    assert_true(plain_peer_unlock(t->f->probe, "orders", PLAIN_PEER));
    assert_gets_in(waiting, lock);
    assert_result(relock_spinlock_set_pauses(lock, LONG_MS, LONG_MS), RELOCK_OK);
    read = proxy_next(t->proxy, PROXY_HOLD, "plain_watch");
    assert_true(plain_peer_lock(t->f->probe, "orders", PLAIN_PEER, LONG_MS));
    actor_begin_lock(waiting, lock);
    assert_true(proxy_met(read, 1));
    assert_true(plain_peer_unlock(t->f->probe, "orders", PLAIN_PEER));
    proxy_let_go(read);
    assert_gets_in(waiting, lock);
}

static void begin_room(struct relock_lock *lock, uint64_t ms)
{
    struct relock_client *client = lock->client;

    relock_mutex_lock(&client->mutex);
    lock->resource->contention->room.ends_ms = relock_clock_in(ms);
    relock_mutex_unlock(&client->mutex);
}

/* The first waiter asks at its deadline, though the lock is left to others. So it takes the signal,
 * and the second waiter needs another one. */
static void a_lock_that_becomes_free_in_a_room_is_a_signal(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = plainlock(t);
    struct actor *first = falls_asleep(t, lock), *second = actor_start();
    struct proxy_rule *read;

    assert_true(plain_peer_unlock(t->f->probe, "orders", PLAIN_PEER));
    assert_gets_in(first, lock);
    assert_result(relock_spinlock_set_pauses(lock, LONG_MS, LONG_MS), RELOCK_OK);
    assert_true(plain_peer_lock(t->f->probe, "orders", PLAIN_PEER, LONG_MS));
    actor_begin_timedlock(first, lock, (int64_t)slow_ms(1000));
    assert_true(wait_for_waiters(lock->client, 1));
    let_pass(200);
    actor_begin_lock(second, lock);
    assert_true(wait_for_waiters(lock->client, 2));
    begin_room(lock, slow_ms(2500));
    read = proxy_next(t->proxy, PROXY_HOLD, "plain_watch");
    assert_true(plain_peer_unlock(t->f->probe, "orders", PLAIN_PEER));
    assert_true(plain_peer_lock(t->f->probe, "orders", PLAIN_PEER, LONG_MS));
    assert_true(proxy_met(read, 1));
    assert_result(actor_result(first), RELOCK_TIMEOUT);
    assert_true(plain_peer_unlock(t->f->probe, "orders", PLAIN_PEER));
    proxy_let_go(read);
    assert_gets_in(second, lock);
}

static void a_waiter_polls_while_there_is_no_subscriber(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = plainlock(t);
    struct actor *waiting = falls_asleep(t, lock);
    struct proxy_rule *subscribe = proxy_next(t->proxy, PROXY_HOLD, "SUBSCRIBE");

    proxy_cut(t->proxy, "SUBSCRIBE");
    assert_true(proxy_met(subscribe, 1));
    assert_true(plain_peer_unlock(t->f->probe, "orders", PLAIN_PEER));
    assert_gets_in(waiting, lock);
    proxy_let_go(subscribe);
}

/* A waiter that would poll after an hour is asleep again, and is woken. */
static void a_waiter_sleeps_again_when_there_is_a_subscriber(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = plainlock(t);
    struct actor *waiting;
    size_t n_read;

    assert_result(relock_spinlock_set_pauses(lock, LONG_MS, LONG_MS), RELOCK_OK);
    waiting = falls_asleep(t, lock);
    n_read = proxy_count(t->proxy, "plain_watch");
    proxy_cut(t->proxy, "SUBSCRIBE");
    assert_true(proxy_counts(t->proxy, "plain_watch", n_read + 1));
    let_pass(50);
    assert_true(plain_peer_unlock(t->f->probe, "orders", PLAIN_PEER));
    assert_gets_in(waiting, lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(a_hold_that_is_deleted_before_its_look_is_lost),
        FAULT_TEST(a_hold_that_is_taken_before_its_look_is_lost),
        FAULT_TEST(a_plain_hold_that_is_deleted_before_its_look_is_lost),
        FAULT_TEST(a_plain_hold_that_is_taken_before_its_look_is_lost),
        FAULT_TEST(a_hold_that_is_replaced_before_its_look_is_lost),
        FAULT_TEST(a_plain_hold_that_is_replaced_before_its_look_is_lost),
        FAULT_TEST(a_plain_hold_that_becomes_huge_before_its_look_is_lost),
        FAULT_TEST(a_reader_without_levels_is_lost_before_it_is_tracked),
        FAULT_TEST(a_look_that_is_cut_off_is_followed_by_a_check),
        FAULT_TEST(a_look_that_is_refused_is_followed_by_checks),
        FAULT_TEST(a_report_before_the_reply_to_a_look_counts),
        FAULT_TEST(a_report_before_the_reply_to_a_check_counts),
        FAULT_TEST(a_loss_without_a_subscriber_is_found_when_there_is_one),
        FAULT_TEST(a_loss_without_a_pipeline_is_found_when_there_is_one),
        FAULT_TEST(tracking_that_a_busy_server_refused_is_turned_on_later),
        FAULT_TEST(a_tracked_command_that_a_busy_server_refused_is_repeated),
        FAULT_TEST(two_readers_do_not_answer_each_other),
        FAULT_TEST(a_report_before_the_reply_to_a_waiter_counts),
        FAULT_TEST(a_lock_that_is_free_when_it_is_read_is_a_signal),
        FAULT_TEST(a_lock_that_becomes_free_in_a_room_is_a_signal),
        FAULT_TEST(a_waiter_polls_while_there_is_no_subscriber),
        FAULT_TEST(a_waiter_sleeps_again_when_there_is_a_subscriber),
    };

    return FAULT_TESTS_RUN(tests);
}
