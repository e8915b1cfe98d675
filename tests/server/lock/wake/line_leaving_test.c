/*
 * A client leaves the line when nobody waits there any more, whatever it is told later. Nothing
 * here ends by time, unless a test says so.
 */
#include "support/line.h"

/* Another client holds "orders". */
static struct relock_lock *held_lock(struct fixture *f)
{
    struct relock_lock *lock = kind_lock(f, line_client(f), "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    return lock;
}

/* The lock of a client that has waited, and does so no more; `entry` is its place in lines. */
static struct relock_lock *lock_once_waited_for(struct fixture *f, char entry[LINE_ENTRY_MAX])
{
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    struct relock_lock *lock = kind_lock(f, line_client(f), "orders");
    struct actor *waiting = actor_start();

    assert_result(relock_cancel_new(&how.cancel), RELOCK_OK);
    actor_begin_acquire(waiting, lock, &how);
    assert_true(line_wait(f, 1));
    line_entry(f, 0, entry);
    relock_cancel_fire(how.cancel);
    assert_result(actor_result(waiting), RELOCK_CANCELLED);
    relock_cancel_free(how.cancel);
    assert_true(line_wait(f, 0));
    return lock;
}

/* The keys of the line are gone, too. */
static bool is_gone(struct fixture *f)
{
    return line_wait(f, 0) && probe_int(f->probe, "EXISTS " LINE " " LINE_TURN) == 0;
}

static void a_waiter_that_times_out_leaves_the_line(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *held = held_lock(f);
    struct relock_lock *lock = kind_lock(f, line_client(f), "orders");
    struct actor *waiting = actor_start();

    actor_begin_timedlock(waiting, lock, (int64_t)outlast_ms(2000));
    assert_true(line_wait(f, 1));
    assert_result(actor_result(waiting), RELOCK_TIMEOUT);
    assert_true(is_gone(f));
    assert_result(relock_unlock(held), RELOCK_OK);
}

/* Behind another client. */
static void a_waiter_that_is_cancelled_leaves_the_line(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *held = held_lock(f);
    struct relock_lock *lock = kind_lock(f, line_client(f), "orders");
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    struct listener *first = line_join_silent(f, SILENT);
    struct actor *waiting = actor_start();

    assert_result(relock_cancel_new(&how.cancel), RELOCK_OK);
    actor_begin_acquire(waiting, lock, &how);
    assert_true(line_wait(f, 2));
    relock_cancel_fire(how.cancel);
    assert_result(actor_result(waiting), RELOCK_CANCELLED);
    assert_true(line_wait(f, 1));
    relock_cancel_free(how.cancel);
    assert_int_equal(probe_int(f->probe, "DEL " LINE " " LINE_TURN), 2);
    assert_result(relock_unlock(held), RELOCK_OK);
    listener_close(first);
}

/* The client stays while another of its threads waits. */
static void a_client_stays_in_the_line_until_its_last_waiter_leaves(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *held = held_lock(f);
    struct relock_client *client = line_client(f);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct actor *waiting = line_begin(f, lock, 1);
    struct actor *leaving = actor_start();

    assert_result(actor_wait_out(leaving, lock, 1), RELOCK_TIMEOUT);
    let_pass(20); /* it would have left by then, mostly */
    assert_true(line_wait(f, 1));
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_gets_in(waiting, lock);
    assert_true(is_gone(f));
}

/* While the client is freed, its waiter ends. */
static void a_client_that_is_freed_has_left_the_line(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *held = held_lock(f);
    struct relock_client *client = line_client(f);
    struct actor *waiting = line_begin(f, kind_lock(f, client, "orders"), 1);

    fixture_free_client(f, client);
    assert_int_equal(probe_int(f->probe, "EXISTS " LINE " " LINE_TURN), 0);
    assert_result(actor_result(waiting), RELOCK_E_CLOSED);
    assert_result(relock_unlock(held), RELOCK_OK);
}

static void a_try_does_not_join_the_line(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *held = held_lock(f);
    char entry[LINE_ENTRY_MAX];
    struct relock_lock *lock;

    lock = lock_once_waited_for(f, entry); /* it could join */
    assert_result(relock_trylock(lock), RELOCK_BUSY);
    assert_true(is_gone(f));
    assert_result(relock_unlock(held), RELOCK_OK);
}

/* ---- messages that come late --------------------------------------------------------------- */

/* It stands in the line and is told that it is its turn, which it passes on to the next. */
static void a_client_that_is_told_in_vain_leaves(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *held = held_lock(f);
    char entry[LINE_ENTRY_MAX];
    struct listener *next;

    (void)lock_once_waited_for(f, entry);
    assert_int_equal(probe_int(f->probe, "RPUSH " LINE " %s", entry), 1);
    next = line_join_silent(f, SILENT);
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_true(line_hears_first(next));
    assert_true(line_hears_now(next));
    assert_int_equal(probe_int(f->probe, "DEL " LINE " " LINE_TURN), 2);
    listener_close(next);
}

/* It is told that it is first. */
static void a_client_that_is_first_in_vain_leaves(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *held = held_lock(f);
    char entry[LINE_ENTRY_MAX];
    struct listener *before, *next;

    (void)lock_once_waited_for(f, entry);
    before = line_join_silent(f, SILENT);
    assert_int_equal(probe_int(f->probe, "RPUSH " LINE " %s", entry), 2);
    next = line_join_silent(f, SILENT2);
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_true(line_hears_now(before));
    assert_true(line_hears_second(next));
    assert_true(line_hears_first(next));
    assert_int_equal(probe_int(f->probe, "LLEN " LINE), 2);
    assert_int_equal(probe_int(f->probe, "DEL " LINE " " LINE_TURN), 2);
    listener_close(before);
    listener_close(next);
}

/* Anybody may publish there. The client waits on, and may ask as often as it is told to. */
static void other_texts_in_the_inbox_change_nothing(void **state)
{
    static const char *const texts[] = {
        "",
        " ",
        "now",
        "now ",
        "now:",
        "now: ",
        ":read orders",
        "now:no orders",
        " orders",
        "first",
        "now nobody",
        "soon orders",
        "now:read orders",
        "now:write orders",
        "\xff\x01\r\n orders",
    };
    struct fixture *f = *state;
    struct relock_lock *held = held_lock(f);
    struct relock_client *client = line_client(f);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct actor *waiting = line_begin(f, lock, 1);
    char entry[LINE_ENTRY_MAX];

    line_entry(f, 0, entry);
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        line_tell(f, entry, texts[i]);
    let_pass(20);
    assert_true(actor_is_busy(waiting));
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_gets_in(waiting, lock);
    assert_true(is_gone(f));
}

/* ---- its place ----------------------------------------------------------------------------- */

/* The scripts take a client without a subscription out of the line. Behind another, it does not
 * listen to the channel of the lock. */
static void a_client_takes_its_place_again_when_its_inbox_was_closed(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *held = held_lock(f);
    struct listener *first = line_join_silent(f, SILENT);
    struct relock_client *client = line_client(f);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct actor *waiting = line_begin(f, lock, 2);

    assert_int_equal(probe_int(f->probe, "DEL " LINE " " LINE_TURN), 2);
    assert_true(probe_int(f->probe, "CLIENT KILL TYPE pubsub") >= 2);
    assert_true(line_wait(f, 1));
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_gets_in(waiting, lock);
    assert_int_equal(stats_of(client).rechecks, 0);
    listener_close(first);
}

static void has_a_lease(struct fixture *f, const char *key)
{
    long long lease_ms = probe_pttl(f->probe, key);

    assert_in_range(lease_ms, NEVER_MS, 24LL * 3600 * 1000);
}

/* Redis forgets the line even if no client leaves it. */
static void the_keys_of_a_line_have_a_lease(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *held = held_lock(f);
    struct relock_lock *lock = kind_lock(f, line_client(f), "orders");
    struct actor *waiting = line_begin(f, lock, 1);

    has_a_lease(f, LINE);
    has_a_lease(f, LINE_TURN);
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_gets_in(waiting, lock);
    assert_true(is_gone(f));
}

/* ---- names --------------------------------------------------------------------------------- */

static bool is_in_the_other_line(void *f)
{
    return probe_int(((struct fixture *)f)->probe, "LLEN relock_waiters::{orders}") == 1;
}

/* They share the channel, and have a line each. */
static void names_that_differ_in_braces_have_a_line_each(void **state)
{
    static const char *const names[] = {"orders", "{orders}"};
    struct fixture *f = *state;
    struct relock_client *holder = line_client(f), *waiter = line_client(f);
    struct relock_lock *held[2], *locks[2];
    struct actor *waiting[2];

    for (int i = 0; i < 2; i++) {
        held[i] = kind_lock(f, holder, names[i]);
        locks[i] = kind_lock(f, waiter, names[i]);
        assert_result(relock_lock(held[i]), RELOCK_OK);
        waiting[i] = actor_start();
        actor_begin_lock(waiting[i], locks[i]);
    }
    assert_true(line_wait(f, 1));
    assert_true(wait_until(is_in_the_other_line, f, SOON_MS));
    assert_result(relock_unlock(held[1]), RELOCK_OK);
    assert_gets_in(waiting[1], locks[1]);
    assert_true(actor_is_busy(waiting[0]));
    assert_int_equal(probe_int(f->probe, "LLEN " LINE), 1);
    assert_result(relock_unlock(held[0]), RELOCK_OK);
    assert_gets_in(waiting[0], locks[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LINE_TEST(a_waiter_that_times_out_leaves_the_line),
        LINE_TEST(a_waiter_that_is_cancelled_leaves_the_line),
        LINE_TEST(a_client_stays_in_the_line_until_its_last_waiter_leaves),
        LINE_TEST(a_client_that_is_freed_has_left_the_line),
        LINE_TEST(a_try_does_not_join_the_line),
        LINE_TEST(a_client_that_is_told_in_vain_leaves),
        LINE_TEST(a_client_that_is_first_in_vain_leaves),
        LINE_TEST(other_texts_in_the_inbox_change_nothing),
        LINE_TEST(a_client_takes_its_place_again_when_its_inbox_was_closed),
        LINE_TEST(the_keys_of_a_line_have_a_lease),
        LINE_TEST(names_that_differ_in_braces_have_a_line_each),
    };

    return SERVER_TESTS_RUN(tests);
}
