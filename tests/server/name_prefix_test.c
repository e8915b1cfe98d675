/* `name_prefix`: each key and channel of a client has it, and the program never sees it. */
#include "support/actor.h"
#include "support/kinds.h"
#include "support/multi.h"
#include "support/rights.h"

#include <stdio.h>
#include <string.h>

#define LEASE_MS 3000

static struct relock_client *client_of(struct fixture *f, const char *prefix)
{
    return fixture_client(f, &(struct relock_options){.name_prefix = prefix,
                                                      .recheck_ms = NEVER_MS,
                                                      .watchdog_timeout_ms = slow_ms(LEASE_MS)});
}

/* ---- in Redis ------------------------------------------------------------------------------ */

static void the_key_is_the_prefix_and_the_name(void **state)
{
    struct fixture *f = *state;
    char prefix[] = "shop:";
    struct relock_lock *lock = kind_lock(f, client_of(f, prefix), "orders");
    struct relock_lock *other = kind_lock(f, client_of(f, "shop2:"), "orders");

    memset(prefix, 'x', strlen(prefix)); /* it was copied */
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(kind_has_levels(f, "shop:orders", 1));
    assert_string_equal(relock_lock_name(lock), "orders");
    assert_result(relock_trylock(other), RELOCK_OK);
    assert_result(relock_unlock(other), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "EXISTS orders shop:orders"), 0);
}

/* Waiters sleep until they get a message, so both have the same channel, too. */
static void a_client_without_the_prefix_reaches_the_lock_by_its_whole_name(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_of(f, "shop:"), *whole = client_of(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_lock *same = kind_lock(f, whole, "shop:orders");
    struct actor *waiting = actor_start();

    for (int i = 0; i < 2; i++) {
        assert_result(relock_lock(lock), RELOCK_OK);
        actor_begin_lock(waiting, same);
        assert_true(wait_for_waiters(whole, 1));
        assert_result(relock_unlock(lock), RELOCK_OK);
        assert_gets_in(waiting, same);
    }
    assert_result(relock_lock(same), RELOCK_OK);
    assert_result(actor_trylock(waiting, lock), RELOCK_BUSY);
    assert_result(relock_unlock(same), RELOCK_OK);
}

static void the_rights_to_names_with_the_prefix_suffice(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = {.name_prefix = "orders",
                                     .user = "locker",
                                     .password = "secret",
                                     .recheck_ms = NEVER_MS,
                                     .watchdog_timeout_ms = slow_ms(LEASE_MS)};
    struct relock_client *client;
    struct actor *waiting = actor_start();
    struct relock_lock *lock;

    rights_give(f, "fair", NULL);
    client = fixture_client(f, &options);
    lock = fixture_lock_of(f, client, "of today", relock_fairlock_new);
    assert_result(relock_lock(lock), RELOCK_OK);
    actor_begin_lock(waiting, lock);
    assert_true(wait_for_waiters(client, 1));
    assert_true(wait_for_renewals(client, 0, 1));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_gets_in(waiting, lock);
    assert_int_equal(log_count(f->log, "NOPERM"), 0);
    fixture_free_client(f, client);
}

static void prefix_and_name_have_4096_bytes_together(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_of(f, "shop:");
    char name[4096] = "";
    struct relock_lock *lock;

    memset(name, 'x', 4096 - strlen("shop:"));
    assert_result(relock_trylock(fixture_lock(f, client, name)), RELOCK_OK);
    assert_result(relock_unlock(fixture_lock(f, client, name)), RELOCK_OK);
    strcat(name, "x");
    assert_result(relock_lock_new(client, name, &lock), RELOCK_E_INVALID);
    assert_result(relock_lock_new(client, "", &lock), RELOCK_E_INVALID);
}

/* ---- in the program ------------------------------------------------------------------------ */

static void a_loss_names_the_lock_without_the_prefix_and_the_log_names_the_key(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, client_of(f, "shop:"), "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "DEL shop:orders"), 1);
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_string_equal(losses_get(f->losses, 0).name, "orders");
    assert_true(log_wait(f->log, "shop:orders: owner ", SOON_MS));
    assert_result(relock_unlock(lock), RELOCK_LOST);
}

static void a_multi_lock_names_its_members_without_the_prefix(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *a = fixture_lock(f, client_of(f, "x:"), "a");
    struct relock_lock *b = fixture_lock(f, client_of(f, "shop:"), "b");
    struct relock_lock *both = fixture_multi(f, b, a, NULL);
    struct relock_how how = {.owner = relock_owner_new()};
    struct relock_holder holder;
    struct relock_grant grant;

    assert_string_equal(relock_lock_name(both), "b");
    assert_result(relock_acquire(b, &how, NULL), RELOCK_OK);
    assert_result(relock_acquire(both, NULL, &grant), RELOCK_BUSY);
    assert_string_equal(grant.failed_member, "b");
    assert_result(relock_who_holds(both, &holder), RELOCK_OK);
    assert_string_equal(holder.member, "b");
    assert_result(relock_release(b, how.owner), RELOCK_OK);

    assert_result(relock_lock(both), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "DEL x:a"), 1);
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_string_equal(losses_get(f->losses, 0).name, "a");
    assert_result(relock_acquire(both, NULL, &grant), RELOCK_LOST);
    assert_string_equal(grant.failed_member, "a");
    assert_result(relock_unlock(both), RELOCK_LOST);
}

/* ---- for operators ------------------------------------------------------------------------- */

struct view {
    char text[200];
};

static bool note_lock(const struct relock_lock_info *info, void *arg)
{
    struct view *view = arg;
    size_t len = strlen(view->text);

    (void)snprintf(view->text + len, sizeof(view->text) - len, "%s ", info->name);
    return true;
}

static bool note_waiter(const struct relock_waiter_info *info, void *arg)
{
    struct view *view = arg;

    (void)snprintf(view->text, sizeof(view->text), "place %u", info->place);
    return true;
}

static void a_client_finds_the_locks_with_its_prefix(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_of(f, "*[a\\:"); /* no letter of it is special */
    struct relock_lock *ours = fixture_lock(f, client, "one");
    struct relock_lock *theirs = fixture_lock(f, client_of(f, "*[aa\\:"), "two");
    struct view view = {""};

    assert_result(relock_lock(ours), RELOCK_OK);
    assert_result(relock_lock(theirs), RELOCK_OK);
    assert_result(relock_locks(client, "*", note_lock, &view), RELOCK_OK);
    assert_string_equal(view.text, "one ");
    view.text[0] = '\0';
    assert_result(relock_locks(client, "o?e", note_lock, &view), RELOCK_OK);
    assert_string_equal(view.text, "one ");
    view.text[0] = '\0';
    assert_result(relock_locks(client, "one", note_lock, &view), RELOCK_OK);
    assert_string_equal(view.text, "one ");
    assert_result(relock_unlock(ours), RELOCK_OK);
    assert_result(relock_unlock(theirs), RELOCK_OK);
}

static void a_client_finds_the_waiters_for_a_lock_with_its_prefix(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_of(f, "shop:");
    struct relock_lock *lock = fixture_lock_of(f, client, "orders", relock_fairlock_new);
    struct actor *waiting = actor_start();
    struct view view = {""};

    assert_result(relock_lock(lock), RELOCK_OK);
    actor_begin_lock(waiting, lock);
    assert_true(probe_wait_key(f->probe, "redisson_lock_queue:{shop:orders}"));
    assert_result(relock_waiters(client, "orders", note_waiter, &view), RELOCK_OK);
    assert_string_equal(view.text, "place 1");
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_gets_in(waiting, lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KINDS_TEST(the_key_is_the_prefix_and_the_name),
        KINDS_TEST(a_client_without_the_prefix_reaches_the_lock_by_its_whole_name),
        SERVER_TEST(the_rights_to_names_with_the_prefix_suffice),
        SERVER_TEST(prefix_and_name_have_4096_bytes_together),
        SERVER_TEST(a_loss_names_the_lock_without_the_prefix_and_the_log_names_the_key),
        SERVER_TEST(a_multi_lock_names_its_members_without_the_prefix),
        SERVER_TEST(a_client_finds_the_locks_with_its_prefix),
        SERVER_TEST(a_client_finds_the_waiters_for_a_lock_with_its_prefix),
    };

    return SERVER_TESTS_RUN(tests);
}
