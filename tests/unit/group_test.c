/* What multi locks are made of, and how it ends. */
#include "lock/group.h"
#include "support/child.h"
#include "support/fixture.h"

#include <stdlib.h>

/* One that never reaches a server. */
static struct relock_client *lone_client(void)
{
    struct relock_options options = {
        .url = "unix:///nowhere/relock", .flags = RELOCK_LAZY, .log_level = RELOCK_LOG_ERROR};
    struct relock_client *client;

    assert_int_equal(relock_client_new(&options, &client), RELOCK_OK);
    return client;
}

static int bury(struct child *parent, void *arg)
{
    (void)parent;
    (void)arg;
    relock_group_bury();
    return EXIT_SUCCESS;
}

/* Its members and its client are the parent's, and a thread of that may have been in them. */
static void a_child_buries_what_its_parent_left_without_touching_a_mutex(void **state)
{
    struct relock_client *client = lone_client();
    struct relock_group *group;
    struct relock_lock *member;
    struct relock_lock *lock;
    struct child *child;

    (void)state;
    assert_int_equal(relock_lock_new(client, "a", &member), RELOCK_OK);
    assert_int_equal(relock_multilock_new(&member, 1, &lock), RELOCK_OK);
    group = relock_group_ref(lock->site->group);
    relock_lock_free(lock);
    relock_lock_free(member);

    relock_mutex_lock(&client->mutex); /* the I/O thread buries nothing meanwhile */
    relock_group_unref(group);
    child = child_start(bury, NULL);
    relock_mutex_unlock(&client->mutex);
    assert_int_equal(child_wait(child, SOON_MS), EXIT_SUCCESS);
    relock_client_free(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_buries_what_its_parent_left_without_touching_a_mutex),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
