/* How the groups of multi and red locks begin and end. */
#include "group/life.h"
#include "group/listeners.h"
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
        struct relock_listener *due;

        relock_mutex_lock(&member->client->mutex);
        due = relock_listeners_notify(member->resource, true);
        relock_mutex_unlock(&member->client->mutex);
        assert_non_null(due);
        relock_listeners_deliver(due, true);
    }
    return r;
}

static void a_release_is_harmless_while_a_red_lock_is_being_made(void **state)
{
    struct relock_lock *members[3];
    struct relock_client *clients[3];
    struct relock_lock *lock;

    (void)state;
    for (int i = 0; i < 3; i++) {
        clients[i] = lone_client();
        assert_int_equal(relock_lock_new(clients[i], "a", &members[i]), RELOCK_OK);
    }
    assert_int_equal(relock_redlock_new(members, 3, &lock), RELOCK_OK);
    relock_lock_free(lock);
    for (int i = 0; i < 3; i++) {
        relock_lock_free(members[i]);
        relock_client_free(clients[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_reaps_groups_of_its_parent_without_a_mutex),
        cmocka_unit_test(a_release_is_harmless_while_a_red_lock_is_being_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
