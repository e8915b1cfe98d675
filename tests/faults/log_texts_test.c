/*
 * The log after each kind of fault: it has the name of the lock, its owner and the words of the
 * server, no password, and no line that a name has forged.
 */
#include "faults.h"

#include "lines.h"

#include <string.h>

#define USER "locker"
#define LEASE_MS 2600

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* ---- who says it --------------------------------------------------------------------------- */

struct scene {
    struct faults *t;
    const char *name; /* name of the lock */
    bool has_sink;
    unsigned flags;
    struct relock_client *client;
    struct relock_lock *lock;
};

static struct relock_options options_of(const struct scene *scene)
{
    return (struct relock_options){.url = proxy_url(scene->t->proxy),
                                   .tls_ca_file = faults_ca_file(scene->t),
                                   .user = USER,
                                   .password = LINES_SECRET,
                                   .watchdog_timeout_ms = outlast_ms(LEASE_MS),
                                   .connect_timeout_ms = slow_ms(SOON_MS),
                                   .command_timeout_ms = 2 * short_ms(),
                                   .flags = scene->flags,
                                   .on_log = scene->has_sink ? lines_write : NULL,
                                   .on_lost = losses_drop,
                                   .log_level = scene->has_sink ? RELOCK_LOG_DEBUG : 0};
}

static void let_user(const struct scene *scene, const char *rule)
{
    assert_int_equal(probe_int(scene->t->f->probe, "ACL SETUSER " USER " %s", rule), 0);
}

/* ---- what goes wrong with a lock ----------------------------------------------------------- */

static void wrong_type(struct scene *scene)
{
    struct probe *probe = scene->t->f->probe;

    assert_int_equal(probe_int(probe, "SET %s precious", scene->name), 0);
    assert_result(relock_trylock(scene->lock), RELOCK_E_SERVER);
    assert_int_equal(probe_int(probe, "DEL %s", scene->name), 1);
}

static void no_right(struct scene *scene)
{
    bool locked;

    let_user(scene, "resetkeys");
    assert_result(relock_trylock(scene->lock), RELOCK_E_AUTH);
    assert_result(relock_is_locked(scene->lock, &locked), RELOCK_E_AUTH);
    assert_result(relock_force_unlock(scene->lock), RELOCK_E_AUTH);
}

static void no_right_to_renew(struct scene *scene)
{
    assert_result(relock_lock(scene->lock), RELOCK_OK);
    let_user(scene, "resetkeys");
    assert_true(lines_wait("renewal refused: NOPERM"));
    let_user(scene, "~*");
    assert_result(relock_unlock(scene->lock), RELOCK_OK);
}

static void no_right_to_release(struct scene *scene)
{
    assert_result(relock_lock(scene->lock), RELOCK_OK);
    assert_result(relock_lock(scene->lock), RELOCK_OK);
    let_user(scene, "resetkeys");
    assert_result(relock_unlock(scene->lock), RELOCK_E_AUTH);
    assert_result(relock_unlock(scene->lock), RELOCK_E_AUTH);
    let_user(scene, "~*");
    assert_true(probe_wait_no_key(scene->t->f->probe, scene->name, SOON_MS));
}

static void no_right_to_subscribe(struct scene *scene)
{
    struct probe *probe = scene->t->f->probe;
    struct actor *actor = actor_start();

    let_user(scene, "resetchannels");
    assert_true(peer_lock(probe, scene->name, PEER, LONG_MS));
    actor_begin_lock(actor, scene->lock);
    assert_true(lines_wait("redisson_lock__channel:{orders"));
    assert_true(peer_unlock(probe, scene->name, PEER));
    assert_gets_in(actor, scene->lock);
}

static void lost(struct scene *scene)
{
    assert_result(relock_lock(scene->lock), RELOCK_OK);
    assert_int_equal(probe_int(scene->t->f->probe, "DEL %s", scene->name), 1);
    assert_true(lines_wait("lost the lock"));
    assert_result(relock_unlock(scene->lock), RELOCK_LOST);
}

/* Without tracking, which would find the loss of a hold that is older than 100 ms. */
static void gone(struct scene *scene)
{
    struct relock_how not_renewed = {.lease_ms = LONG_MS}; /* a renewal would find the loss */

    assert_result(relock_acquire(scene->lock, &not_renewed, NULL), RELOCK_OK);
    assert_int_equal(probe_int(scene->t->f->probe, "DEL %s", scene->name), 1);
    assert_result(relock_unlock(scene->lock), RELOCK_LOST);
}

static void thread_ended(struct scene *scene)
{
    struct actor *owner = actor_start();

    assert_result(actor_lock(owner, scene->lock), RELOCK_OK);
    actor_end(owner);
    assert_true(probe_wait_no_key(scene->t->f->probe, scene->name, SOON_MS));
}

static void last_handle(struct scene *scene)
{
    assert_result(relock_lock(scene->lock), RELOCK_OK);
    fixture_free_lock(scene->t->f, scene->lock);
    scene->lock = fixture_lock(scene->t->f, scene->client, scene->name);
    assert_result(relock_unlock(scene->lock), RELOCK_OK);
}

static void silence(struct scene *scene)
{
    server_pause(scene->t->f->server);
    assert_result(relock_trylock(scene->lock), RELOCK_E_CONN);
    server_resume(scene->t->f->server);
    assert_true(probe_wait_no_key(scene->t->f->probe, scene->name, SOON_MS));
}

/* The password changes, and all connections must log in again. */
static void new_password(struct scene *scene)
{
    assert_result(relock_lock(scene->lock), RELOCK_OK);
    let_user(scene, "resetpass");
    let_user(scene, ">n3xt");
    probe_int(scene->t->f->probe, "CLIENT KILL USER " USER);
    assert_result(relock_lock(scene->lock), RELOCK_E_AUTH);
    assert_true(lines_wait("reconnecting"));
    let_user(scene, "resetpass");
    let_user(scene, ">" LINES_SECRET);
    (void)relock_unlock(scene->lock); /* lost, if that took too long */
    assert_true(probe_wait_no_key(scene->t->f->probe, scene->name, SOON_MS));
}

static const struct {
    const char *what;
    void (*go_wrong)(struct scene *scene);
    const char *words;
} troubles[] = {
    {"wrong type", wrong_type, "not acquired: Redis returned an error"},
    {"wrong type, the text", wrong_type, "WRONGTYPE"},
    {"no right", no_right, "NOPERM"},
    {"no right to renew", no_right_to_renew, "renewal refused: NOPERM"},
    {"no right to release", no_right_to_release, "released, but not in Redis yet"},
    {"no right to subscribe", no_right_to_subscribe, "not subscribed"},
    {"lost", lost, "lost the lock: Redis no longer has it"},
    {"lost, the consequence", lost, "return RELOCK_LOST until every level is released"},
    {"gone", gone, "Redis no longer had the hold"},
    {"thread ended", thread_ended, "is a thread that ended"},
    {"last handle", last_handle, "its last handle was freed"},
    {"silence", silence, "not acquired: Redis is unreachable"},
    {"new password", new_password, "WRONGPASS"},
};

static void go_wrong(struct faults *t, size_t i, const char *name, bool has_sink)
{
    struct scene scene = {.t = t,
                          .name = name,
                          .has_sink = has_sink,
                          .flags = troubles[i].go_wrong == gone ? RELOCK_NO_TRACKING : 0};
    struct relock_options options = options_of(&scene);

    assert_true(probe_make_user(t->f->probe, USER, LINES_SECRET, "~* &* +@all"));
    lines_begin();
    scene.client = fixture_client(t->f, &options);
    scene.lock = fixture_lock(t->f, scene.client, name);
    troubles[i].go_wrong(&scene);
    fixture_free_lock(t->f, scene.lock);
    fixture_free_client(t->f, scene.client);
    lines_end(troubles[i].what, troubles[i].words, true);
}

static void each_fault_is_logged_without_a_password(void **state)
{
    for (size_t i = 0; i < COUNT(troubles); i++) {
        go_wrong(*state, i, "orders", false);
        go_wrong(*state, i, "orders", true);
    }
}

/* Names that would be lines of their own, colours, formats, other encodings, or too long; "orders"
 * is how each is found again. */
static void a_name_cannot_forge_a_log_line(void **state)
{
    static char newlines[4097], high[4097];
    static const char *const names[] = {
        "orders\nrelock: error: forged",
        "orders\r\nrelock: error: forged\r\n",
        "orders\x1b[2J\x1b[31m\x07\x08\x7f\x01",
        "orders%s%n%n%s%1000000d",
        "orders\\x0arelock: error: forged\\",
        "orders\x85"
        "a\x9b"
        "2J\xc2\x85"
        "b\xe2\x80\xa8"
        "c\x80\xff",
        newlines,
        high,
    };

    memset(newlines, '\n', sizeof(newlines) - 1);
    memcpy(newlines, "orders", 6);
    memset(high, '\xff', sizeof(high) - 1);
    memcpy(high, "orders", 6);
    for (size_t i = 0; i < COUNT(names); i++)
        for (size_t trouble = 0; trouble < COUNT(troubles); trouble++)
            if (trouble % COUNT(names) == i || i < 2)
                go_wrong(*state, trouble, names[i], trouble % 2 == 0);
}

static int end_log_test(void **state)
{
    lines_reset();
    return faults_end(state);
}

#define LOG_TEST(function) cmocka_unit_test_setup_teardown(function, faults_begin, end_log_test)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOG_TEST(each_fault_is_logged_without_a_password),
        LOG_TEST(a_name_cannot_forge_a_log_line),
    };

    return FAULT_TESTS_RUN(tests);
}
