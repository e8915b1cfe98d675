/* relock_locks(), relock_waiters(), relock_servers(): what operators see of all locks. */
#include "support/actor.h"
#include "support/fair_queue.h"
#include "support/fixture.h"
#include "support/kinds.h"
#include "support/listener.h"
#include "support/numbers.h"
#include "support/peer.h"
#include "support/waiter.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define LEASE_MS 30000
#define TEXT_MAX 2000

/* The locks that were seen, as text: name:kind:holders:waiting and so on. */
struct view {
    char text[TEXT_MAX];
    int most; /* stop after so many */
};

static void note(struct view *view, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void note(struct view *view, const char *format, ...)
{
    size_t len = strlen(view->text);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(view->text + len, sizeof(view->text) - len, format, args);
    va_end(args);
}

static bool note_lock(const struct relock_lock_info *info, void *arg)
{
    struct view *view = arg;

    note(view, "%s:%d:%u:%u ", info->name, info->kind, info->holder.n_holders, info->n_waiting);
    return --view->most != 0;
}

static bool note_name(const struct relock_lock_info *info, void *arg)
{
    note(arg, "%s", info->client_name);
    return true;
}

static bool note_waiter(const struct relock_waiter_info *info, void *arg)
{
    note(arg, "%u:%d:%s:%s ", info->place, info->side, info->gone_in_ms >= 0 ? "fair" : "line",
         info->client_name);
    return true;
}

static bool note_nested(const struct relock_nested_wait *wait, void *arg)
{
    note(arg, "%s:%s:%s:%d ", wait->name, wait->client_name, wait->hold, wait->waited_ms >= 100);
    return true;
}

/* SCAN has no order, so a test that expects several looks for each. */
static const char *see(struct relock_client *client, const char *pattern, struct view *view)
{
    *view = (struct view){0};
    assert_result(relock_locks(client, pattern, note_lock, view), RELOCK_OK);
    return view->text;
}

static void a_held_lock_of_each_kind_is_recognised(void **state)
{
    static const int known[KINDS_AND_SIDES_N] = {
        [KIND_REENTRANT] = RELOCK_KIND_REENTRANT,
        [KIND_FENCED] = RELOCK_KIND_FENCED,
        [KIND_SPIN] = RELOCK_KIND_REENTRANT,
        [KIND_FAIR] = RELOCK_KIND_REENTRANT,
        [KIND_PLAIN] = RELOCK_KIND_PLAIN,
        [KIND_READ] = RELOCK_KIND_RW,
        [KIND_WRITE] = RELOCK_KIND_RW,
    };
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    char name[32], expected[64];
    struct view view;

    for (int i = 0; i < KINDS_AND_SIDES_N; i++) {
        struct relock_lock *lock;

        (void)snprintf(name, sizeof(name), "orders:%d", i);
        (void)snprintf(expected, sizeof(expected), "%s:%d:1:0 ", name, known[i]);
        lock = fixture_lock_of(f, client, name, kinds[i].constructor);
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_string_equal(see(client, name, &view), expected);
        assert_string_equal(see(client, "orders:*", &view), expected);
        assert_result(relock_unlock(lock), RELOCK_OK);
    }
}

static void a_pattern_finds_all_locks_that_match_and_nothing_else(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    char name[32];
    struct view view;

    for (int i = 0; i < 30; i++) {
        (void)snprintf(name, sizeof(name), "a:%d", i);
        assert_true(peer_lock(f->probe, name, PEER, LEASE_MS));
    }
    assert_true(peer_lock(f->probe, "b*", PEER, LEASE_MS));
    /* Several pages of SCAN. */
    probe_text(f->probe, "EVAL %s 0",
               "for i = 1, 5000 do redis.call('rpush', 'filler:' .. i, 1) end");
    probe_int(f->probe, "HSET a:hash field 1");
    probe_int(f->probe, "SET a:string text");
    probe_int(f->probe, "RPUSH a:list 1");

    see(client, "a:*", &view);
    for (int i = 0; i < 30; i++) {
        (void)snprintf(name, sizeof(name), "a:%d:1:1:0 ", i);
        assert_non_null(strstr(view.text, name));
    }
    assert_null(strstr(view.text, "hash"));
    assert_null(strstr(view.text, "string"));
    assert_null(strstr(view.text, "list"));
    assert_string_equal(see(client, "b\\*", &view), "b*:1:1:0 ");
    assert_string_equal(see(client, "b[*]", &view), "b*:1:1:0 ");
    assert_string_equal(see(client, "c*", &view), "");
    probe_text(f->probe, "FLUSHALL");
}

static void a_name_is_reported_whatever_its_key_is(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct view view;

    assert_string_equal(see(client, "none", &view), "none:0:0:0 ");
    probe_int(f->probe, "SET text value");
    assert_string_equal(see(client, "text", &view), "text:6:1:0 ");
    probe_int(f->probe, "RPUSH list 1");
    assert_string_equal(see(client, "list", &view), "list:7:0:0 ");
    probe_int(f->probe, "HSET hash a 1 b 2");
    assert_string_equal(see(client, "hash", &view), "hash:7:0:0 ");
    probe_int(f->probe, "DEL text list hash");
}

/* ---- other libraries ----------------------------------------------------------------------- */

enum { LISTED = 1, LEASED = 2 };

struct written {
    const char *name, *value;
    size_t len; /* 0: that of the text */
    int kind, flags;
};

static void assert_seen(struct fixture *f, struct relock_client *client, const struct written *at)
{
    size_t len = at->len ? at->len : strlen(at->value);
    char expected[128];
    struct view view;

    probe_text(f->probe, "SET %s %b", at->name, at->value, len);
    if (at->flags & LEASED)
        probe_int(f->probe, "PEXPIRE %s 30000", at->name);
    (void)snprintf(expected, sizeof(expected), "%s:%d:1:0 ", at->name, at->kind);
    if (strcmp(see(client, at->name, &view), expected) != 0)
        fail_msg("%s is %s, not %s", at->value, view.text, expected);
    if (strcmp(see(client, "*", &view), at->flags & LISTED ? expected : "") != 0)
        fail_msg("%s: listed: %s", at->value, view.text);
    probe_int(f->probe, "DEL %s", at->name);
}

#define UUID "577c70f8-dae0-40fe-b5a8-bbac7c74a5eb"

/* A token of redis-py, a UUID of version 1 that was made on this day: by its field of 16 bits with
 * the version and the highest bits of the time. */
static void write_uuid1(char text[33], long long age_days)
{
    long long s = (long long)time(NULL) - age_days * 86400;
    unsigned long long ticks = ((unsigned long long)s + 12219292800ULL) * 10000000ULL;

    (void)snprintf(text, 33, "%08llx%04llx1%03llx8242ac120002beef", ticks & 0xffffffffULL,
                   ticks >> 32 & 0xffff, ticks >> 48 & 0xfff);
}

static void what_other_libraries_write_is_recognised(void **state)
{
    char today[33], long_ago[33], tomorrow[33];
    const struct written all[] = {
        {"orders", today, 0, RELOCK_KIND_PLAIN, LISTED | LEASED},
        {"orders", today, 0, RELOCK_KIND_PLAIN, LISTED}, /* redis-py without a timeout */
        {"orders", long_ago, 0, RELOCK_KIND_MAYBE_PLAIN, LISTED | LEASED},
        {"orders", tomorrow, 0, RELOCK_KIND_MAYBE_PLAIN, 0},
        {"orders", "8f14e45fceea167a5a36dedd4bea2543", 0, RELOCK_KIND_MAYBE_PLAIN, LISTED | LEASED},
        {"orders", "8f14e45fceea167a5a36dedd4bea2543", 0, RELOCK_KIND_MAYBE_PLAIN, 0},
        {"lock:orders", "8f14e45fceea167a5a36dedd4bea2543", 0, RELOCK_KIND_MAYBE_PLAIN, LISTED},
        {"lock:page", "da39a3ee5e6b4b0d3255bfef95601890afd80709", 0, RELOCK_KIND_MAYBE_PLAIN,
         LISTED | LEASED}, /* a hash sum, whatever the name */
        {"orders", UUID, 0, RELOCK_KIND_MAYBE_PLAIN, LISTED | LEASED},
        {"mutex:orders", UUID, 0, RELOCK_KIND_PLAIN, LISTED | LEASED},
        {"redlock:orders", UUID, 0, RELOCK_KIND_PLAIN, LISTED | LEASED},
        {"clock:orders", UUID, 0, RELOCK_KIND_MAYBE_PLAIN, LISTED | LEASED},
        {"orders", "u3Hk9QZ1rC0Vb2yT7wXsAA==", 0, RELOCK_KIND_MAYBE_PLAIN, LISTED | LEASED},
        {"orders:lock", "u3Hk9QZ1rC0Vb2yT7wXsAA==", 0, RELOCK_KIND_PLAIN, LISTED | LEASED},
        {"orders", "Ak3jp8L8ICHRGR_NL_KXyQ", 0, RELOCK_KIND_MAYBE_PLAIN, LISTED | LEASED},
        {"orders", "FsLriCIl5xEvi9tl", 0, RELOCK_KIND_MAYBE_PLAIN, LISTED | LEASED},
        {"orders", "sixteenletters16", 0, RELOCK_KIND_MAYBE_PLAIN, LEASED},
        {"orders", "1795780330703", 0, RELOCK_KIND_NUMBER, LEASED},
        {"lock:orders", "1", 0, RELOCK_KIND_NUMBER, LEASED},
        {"orders", "-0", 0, RELOCK_KIND_MAYBE_PLAIN, LEASED},
        {"lock.orders", "1795780330703", 0, RELOCK_KIND_PLAIN, LISTED | LEASED},
        {"@simple-redis-mutex:lock-orders", "0.1683894162615649", 0, RELOCK_KIND_PLAIN,
         LISTED | LEASED},
        {"@simple-redis-mutex:fencing-tokens", "7", 0, RELOCK_KIND_NUMBER, 0},
        {"job-lock:default:orders", "ADDED:2026-11-27T12:00:18.270Z@host:" UUID, 0,
         RELOCK_KIND_PLAIN, LISTED | LEASED},
        {"orders", "\x01\x00\xff 456789abcdef0123", 20, RELOCK_KIND_MAYBE_PLAIN, LISTED | LEASED},
        {"orders", "a text of 20 letters", 0, RELOCK_KIND_MAYBE_PLAIN, LEASED},
        {"rueidislock:0:orders", "\x01\x02\xff 456789abcdef01234567", 24, RELOCK_KIND_PLAIN,
         LISTED | LEASED},
        {"orders", "da39a3ee5e6b4b0d3255bfef95601890afd80709", 0, RELOCK_KIND_MAYBE_PLAIN,
         LISTED | LEASED}, /* SHA-1, as long as a token of relock */
        {"lock:page", "<html>", 0, RELOCK_KIND_MAYBE_PLAIN, LEASED},
    };
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);

    write_uuid1(today, 0);
    write_uuid1(long_ago, 500);
    write_uuid1(tomorrow, -2);
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        assert_seen(f, client, &all[i]);
}

static bool note_library(const struct relock_lock_info *info, void *arg)
{
    (void)snprintf(arg, 64, "%s", info->library);
    return true;
}

/* By the key and the value. */
static void the_library_of_a_plain_lock_is_named_if_it_is_the_only_one(void **state)
{
    char today[33];
    const struct {
        const char *name, *value, *library;
    } all[] = {
        {"orders", today, "redis-py"},
        {":1:orders", today, "django-redis"},
        {"lock:orders", "/p/yH+wNWkH3mkF4TWyXVLga", "python-redis-lock"},
        {"lock:orders", "u3Hk9QZ1rC0Vb2yT7wXsAA==", ""}, /* of redsync */
        {"orders:lock", "u3Hk9QZ1rC0Vb2yT7wXsAA==", ""},
        {"orders", "u3Hk9QZ1rC0Vb2yT7wXsAA==", ""},
        {"redlock:orders", UUID, "pottery"},
        {"mutex:orders", UUID, "redis-semaphore"},
        {"lock:orders", UUID, ""},
        {"shop:orders", UUID, ""},
        {"rueidislock:0:orders", "\x01\x02\xff 456789abcdef01234567", "rueidislock"},
        {"rueidislock:1:orders", "\x01\x02\xff 456789abcdef01234567", ""},
        {"rueidislock:0:orders", "8f14e45fceea167a5a36dedd4bea2543", ""}, /* plain? */
        {"job-lock:test:orders", "ADDED:2026-11-27T12:00:18.270Z@host:" UUID, "shedlock"},
        {"orders", "ADDED:2026-11-27T12:00:18.270Z@host:" UUID, ""},
        {"@simple-redis-mutex:lock-orders", "0.1683894162615649", "simple-redis-mutex"},
        {"lock.orders", "1795780330703", "redis-lock"},
        {"lock:orders", "1795780330703", ""},
    };
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock =
        fixture_lock_of(f, client, "rueidislock:0:orders", relock_plainlock_new);
    char library[64];

    write_uuid1(today, 0);
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        probe_text(f->probe, "SET %s %s PX 30000", all[i].name, all[i].value);
        assert_result(relock_locks(client, all[i].name, note_library, library), RELOCK_OK);
        if (strcmp(library, all[i].library) != 0)
            fail_msg("%s, %s is of \"%s\"", all[i].name, all[i].value, library);
        probe_int(f->probe, "DEL %s", all[i].name);
    }
    assert_result(relock_lock(lock), RELOCK_OK); /* a token of relock */
    assert_result(relock_locks(client, "rueidislock:0:orders", note_library, library), RELOCK_OK);
    assert_string_equal(library, "");
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* Of a key of another type, relock cannot wait for the end. */
static void a_sorted_set_may_be_a_lock_of_another_library(void **state)
{
    static const struct {
        const char *name, *members;
        const char *kind;
        bool is_listed;
    } all[] = {
        {"orders", "%lld __write__ %lld 3Hk9QZ1rC0Vb2yT7wXsAABcDeFgHiJkLmNoPqRsTuV0=", "8:1", true},
        {"orders",
         "%lld Zk9QZ1rC0Vb2yT7wXsAABcDeFgHiJkLmNoPqRsTuV1w= %lld "
         "3Hk9QZ1rC0Vb2yT7wXsAABcDeFgHiJkLmNoPqRsTuV0=",
         "8:2", true},
        {"semaphore:orders", "%lld " UUID, "8:1", true},
        {"jobs", "%lld " UUID, "7:0", false},
        {"jobs", "%lld __write__ 1 text", "7:0", false},
        {"jobs", "99999999999999999 3Hk9QZ1rC0Vb2yT7wXsAABcDeFgHiJkLmNoPqRsTuV0=", "7:0", false},
    };
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    const long long end_ms = (long long)time(NULL) * 1000 + LEASE_MS;

    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        char members[256], command[320], expected[64];
        struct view view;

        (void)snprintf(members, sizeof(members), all[i].members, end_ms, end_ms);
        (void)snprintf(command, sizeof(command), "ZADD %s %s", all[i].name, members);
        assert_true(probe_int(f->probe, command) > 0);
        probe_int(f->probe, "PEXPIRE %s 30000", all[i].name);
        (void)snprintf(expected, sizeof(expected), "%s:%s:0 ", all[i].name, all[i].kind);
        assert_string_equal(see(client, all[i].name, &view), expected);
        assert_string_equal(see(client, "*", &view), all[i].is_listed ? expected : "");
        assert_result(relock_waiters(client, all[i].name, note_waiter, &view), RELOCK_OK);
        probe_int(f->probe, "DEL %s", all[i].name);
    }
}

/* ---- semaphores and other numbers ----------------------------------------------------------- */

#define PEER_PERMIT "0123456789abcdef" /* its id: Redisson's are random */
#define PEER_PERMIT_HEX "30313233343536373839616263646566"

static bool note_number(const struct relock_lock_info *info, void *arg)
{
    note(arg, "%d:%u %lld", info->kind, info->holder.n_holders, (long long)info->number);
    return true;
}

/* What is out, and of each acquire its client, its permits, and the rest of its lease in hours. */
static bool note_semaphore(const struct relock_lock_info *info, void *arg)
{
    struct view *view = arg;

    note(view, "%d: %lld free, %llu out", info->kind, (long long)info->number,
         (unsigned long long)info->n_out);
    for (const struct relock_permits_info *at = info->permits; at; at = at->next)
        note(view, "; %s %llu %lld", *at->client_name ? at->client_name : at->id,
             (unsigned long long)at->n_permits, (long long)(at->ttl_ms + 1800000) / 3600000);
    return true;
}

static struct view see_semaphore(struct relock_client *client, const char *pattern)
{
    struct view view = {0};

    assert_result(relock_locks(client, pattern, note_semaphore, &view), RELOCK_OK);
    return view;
}

static struct relock_lock *semaphore_of_five(struct fixture *f, struct relock_client *client)
{
    struct relock_lock *lock = fixture_lock_of(f, client, "jobs", relock_semaphore_new);

    assert_result(relock_semaphore_set(lock, 5), RELOCK_OK);
    return lock;
}

static int take(struct relock_lock *lock, uint64_t n, uint64_t lease_ms)
{
    const struct relock_how how = {.permits = n, .lease_ms = lease_ms};

    return relock_acquire(lock, &how, NULL);
}

#define HOUR_MS 3600000

static void a_semaphore_shows_who_has_its_permits(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.client_name = "mill"});
    struct relock_lock *lock = semaphore_of_five(f, client);
    const long long now_ms = (long long)time(NULL) * 1000;
    struct view view;

    assert_string_equal(see_semaphore(client, "jobs").text, "12: 5 free, 0 out");
    assert_string_equal(see_semaphore(client, "*").text, "");
    assert_result(take(lock, 2, 5ULL * HOUR_MS), RELOCK_OK);
    assert_string_equal(see_semaphore(client, "jobs").text, "9: 3 free, 2 out; mill 2 5");
    assert_result(take(lock, 1, 3ULL * HOUR_MS), RELOCK_OK);
    assert_string_equal(see_semaphore(client, "*").text, "9: 2 free, 3 out; mill 1 3; mill 2 5");

    probe_int(f->probe, "DECRBY jobs 1");
    probe_int(f->probe, "ZADD {jobs}:timeout 922337203685477 " PEER_PERMIT);
    assert_string_equal(see_semaphore(client, "jobs").text,
                        "9: 1 free, 4 out; mill 1 3; mill 2 5; " PEER_PERMIT_HEX " 1 0");
    probe_int(f->probe, "ZADD {jobs}:timeout %lld " PEER_PERMIT, now_ms - 5000);
    assert_string_equal(see_semaphore(client, "jobs").text,
                        "9: 2 free, 3 out; mill 1 3; mill 2 5"); /* it has expired */

    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    view = see_semaphore(client, "*");
    assert_string_equal(view.text, "");
    probe_int(f->probe, "DEL jobs");
}

/* As of a lock, by relock_who_holds(). */
static bool note_listeners(const struct relock_lock_info *info, void *arg)
{
    note(arg, "%s:%d:%u ", info->name, info->kind, info->n_waiting);
    return true;
}

static bool is_seen_as(struct relock_client *client, const char *pattern, const char *expected)
{
    struct view view = {0};

    assert_result(relock_locks(client, pattern, note_listeners, &view), RELOCK_OK);
    return strcmp(view.text, expected) == 0;
}

struct expected {
    struct relock_client *client;
    const char *pattern, *text;
};

static bool is_as_expected(void *arg)
{
    const struct expected *expected = arg;

    return is_seen_as(expected->client, expected->pattern, expected->text);
}

#define TURN "relock_waiters:turn:{jobs}"
#define RECHECK_MS 500

/* Its key is a number like others, but the first in line has left how many permits it needs. */
static void a_semaphore_with_a_line_shows_itself_also_while_all_permits_are_free(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.recheck_ms = RECHECK_MS});
    struct relock_lock *lock = semaphore_of_five(f, client);
    const struct relock_how how = {.permits = 5, .wait_ms = RELOCK_FOREVER};
    struct actor *actor = actor_start();

    probe_int(f->probe, "DECRBY jobs 1");
    probe_int(f->probe, "ZADD {jobs}:timeout 922337203685477 " PEER_PERMIT);
    actor_begin_acquire(actor, lock, &how);
    assert_true(probe_wait_in_line(f->probe, "jobs", 1));
    assert_string_equal(probe_text(f->probe, "HGET " TURN " need"), "5");
    probe_int(f->probe, "DEL {jobs}:timeout");
    probe_int(f->probe, "INCRBY jobs 1");
    assert_result(actor_result(actor), RELOCK_OK);
    assert_result(actor_unlock(actor, lock), RELOCK_OK);
    /* The client listens for a second or two. */
    assert_true(
        wait_until(is_as_expected, &(struct expected){client, "jobs", "jobs:12:0 "}, SOON_MS));
    assert_string_equal(see_semaphore(client, "jobs").text, "12: 5 free, 0 out");

    probe_int(f->probe, "RPUSH relock_waiters:{jobs} " UUID);
    assert_string_equal(see_semaphore(client, "jobs").text, "12: 5 free, 0 out");
    probe_int(f->probe, "HSET " TURN " need 5");
    assert_string_equal(see_semaphore(client, "jobs").text, "9: 5 free, 0 out");
    assert_string_equal(see_semaphore(client, "*").text, "9: 5 free, 0 out");
    probe_int(f->probe, "DEL relock_waiters:{jobs} " TURN);
    probe_int(f->probe, "DEL jobs");
}

static void the_holder_of_a_semaphore_is_the_acquire_that_expires_first(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.client_name = "mill"});
    struct relock_lock *lock = semaphore_of_five(f, client);
    struct relock_holder holder;
    struct view view = {0};

    assert_result(take(lock, 2, 5ULL * HOUR_MS), RELOCK_OK);
    assert_result(take(lock, 1, 3ULL * HOUR_MS), RELOCK_OK);
    assert_result(relock_who_holds(lock, &holder), RELOCK_OK);
    assert_result(relock_locks(client, "jobs", note_name, &view), RELOCK_OK);
    assert_string_equal(view.text, "mill");
    assert_string_equal(see(client, "jobs", &view), "jobs:9:3:0 ");
    assert_int_equal(holder.n_holders, 3);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    probe_int(f->probe, "DEL jobs");
}

static void a_client_in_the_line_of_a_semaphore_is_reported(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.client_name = "waiter:1"});
    struct relock_lock *lock = semaphore_of_five(f, client);
    struct actor *waiter = actor_start();
    struct view view = {0};

    assert_result(take(lock, 5, 0), RELOCK_OK);
    actor_begin_lock(waiter, lock);
    assert_true(probe_wait_in_line(f->probe, "jobs", 1));
    assert_string_equal(see(client, "jobs", &view), "jobs:9:5:1 ");
    assert_result(relock_waiters(client, "jobs", note_waiter, &view), RELOCK_OK);
    assert_string_equal(view.text, "jobs:9:5:1 1:0:line:waiter:1 ");
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_gets_in(waiter, lock);
    /* The holder has died, and somebody still waits. */
    probe_text(f->probe, "SET jobs 0");
    probe_int(f->probe, "DEL {jobs}:timeout");
    probe_int(f->probe, "ZADD {jobs}:timeout 1 " PEER_PERMIT);
    assert_string_equal(see(client, "*", &view), "");
    probe_int(f->probe, "RPUSH relock_waiters:{jobs} " UUID);
    assert_string_equal(see(client, "*", &view), "jobs:9:0:1 ");
    probe_int(f->probe, "DEL jobs {jobs}:timeout relock_waiters:{jobs}");
}

struct age {
    struct relock_client *client;
    int64_t held_ms;
};

static bool note_age(const struct relock_lock_info *info, void *arg)
{
    int64_t *held_ms = arg;

    *held_ms = info->permits ? info->permits->held_ms : -1;
    return true;
}

static bool knows_the_age(void *arg)
{
    struct age *age = arg;

    return relock_locks(age->client, "jobs", note_age, &age->held_ms) == RELOCK_OK &&
           age->held_ms >= 0;
}

static void the_permits_of_an_acquire_have_an_age(void **state)
{
    struct fixture *f = *state;
    struct age age = {.client = fixture_client(f, &(struct relock_options){.deadlock_ms = 100})};
    struct relock_lock *lock = semaphore_of_five(f, age.client);

    assert_result(take(lock, 1, 0), RELOCK_OK);
    assert_true(wait_until(knows_the_age, &age, SOON_MS));
    assert_result(relock_unlock(lock), RELOCK_OK);
    probe_int(f->probe, "DEL jobs");
}

#define N_ACQUIRES 70 /* more than one script reads */

struct ages {
    struct relock_client *client;
    int64_t held_ms[N_ACQUIRES + 1];
    size_t n, n_known;
};

static bool note_ages(const struct relock_lock_info *info, void *arg)
{
    struct ages *ages = arg;

    ages->n = ages->n_known = 0;
    for (const struct relock_permits_info *at = info->permits; at && ages->n <= N_ACQUIRES;
         at = at->next) {
        ages->held_ms[ages->n++] = at->held_ms;
        ages->n_known += at->held_ms >= 0;
    }
    return true;
}

static bool knows_all_ages(void *arg)
{
    struct ages *ages = arg;

    return relock_locks(ages->client, "jobs", note_ages, ages) == RELOCK_OK && ages->n > 0 &&
           ages->n_known == ages->n;
}

/* Those that expire first come first. */
static void the_ages_of_many_acquires_are_read_by_few_scripts(void **state)
{
    struct fixture *f = *state;
    struct ages ages = {.client = fixture_client(f, &(struct relock_options){.deadlock_ms = 200})};
    struct relock_client *watcher = fixture_client(f, NULL);
    struct relock_lock *lock = semaphore_of_five(f, ages.client);
    long long n_scripts;

    assert_result(relock_semaphore_set(lock, N_ACQUIRES + 1), RELOCK_OK);
    assert_result(take(lock, 1, HOUR_MS), RELOCK_OK);
    assert_true(wait_until(knows_all_ages, &ages, SOON_MS));
    for (int i = 0; i < N_ACQUIRES; i++)
        assert_result(take(lock, 1, 2ULL * HOUR_MS), RELOCK_OK);
    assert_true(wait_until(knows_all_ages, &ages, SOON_MS));
    assert_int_equal(ages.n, N_ACQUIRES + 1);
    assert_true(ages.held_ms[0] >= ages.held_ms[1] + 99);

    n_scripts = probe_calls(f->probe, "evalsha");
    assert_result(relock_locks(watcher, "jobs", note_ages, &ages), RELOCK_OK);
    n_scripts = probe_calls(f->probe, "evalsha") - n_scripts;
    assert_in_range(n_scripts, 3, 5); /* look.lua, and two for 71 ages; a client may record */
    for (int i = 0; i <= N_ACQUIRES; i++)
        assert_result(relock_unlock(lock), RELOCK_OK);
    probe_int(f->probe, "DEL jobs");
}

static bool note_id(const struct relock_lock_info *info, void *arg)
{
    const struct relock_permits_info *at = info->permits;

    while (at && at->n_permits != 2)
        at = at->next;
    note(arg, "%s", at ? at->id : "");
    return true;
}

static bool note_first_id(const struct relock_lock_info *info, void *arg)
{
    note(arg, "%s", info->permits ? info->permits->id : "");
    return info->permits && info->permits->n_permits == 1;
}

static void the_permits_of_one_acquire_can_be_taken_back(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.client_name = "mill"});
    struct relock_lock *lock = semaphore_of_five(f, client), *plain;
    struct relock_client *watcher = fixture_client(f, NULL);
    struct relock_lock *seen = fixture_lock_of(f, watcher, "jobs", relock_semaphore_new);
    struct view view = {0};
    bool held = false;

    assert_result(take(lock, 1, 3ULL * HOUR_MS), RELOCK_OK);
    assert_result(take(lock, 2, 5ULL * HOUR_MS), RELOCK_OK);
    assert_result(relock_locks(watcher, "jobs", note_id, &view), RELOCK_OK);
    assert_result(relock_force_unlock_permit(seen, view.text, &held), RELOCK_OK);
    assert_true(held);
    assert_string_equal(see_semaphore(client, "jobs").text, "9: 4 free, 1 out; mill 1 3");
    assert_result(relock_force_unlock_permit(seen, view.text, &held), RELOCK_OK);
    assert_false(held);
    assert_string_equal(see_semaphore(client, "jobs").text, "9: 4 free, 1 out; mill 1 3");

    assert_result(relock_force_unlock_permit(seen, "012", &held), RELOCK_E_INVALID);
    assert_result(relock_force_unlock_permit(seen, "no", &held), RELOCK_E_INVALID);
    assert_result(relock_force_unlock_permit(seen, NULL, &held), RELOCK_E_INVALID);
    assert_result(relock_force_unlock_permit(NULL, view.text, &held), RELOCK_E_INVALID);
    plain = fixture_lock(f, watcher, "orders");
    assert_result(relock_force_unlock_permit(plain, view.text, &held), RELOCK_E_UNSUPPORTED);
    (void)relock_unlock(lock);
    (void)relock_unlock(lock);
    assert_string_equal(see_semaphore(client, "*").text, "");
    probe_int(f->probe, "DEL jobs");
}

static bool note_unset(const struct relock_lock_info *info, void *arg)
{
    note(arg, "%s:%d:%llu ", info->name, info->is_unset, (unsigned long long)info->n_out);
    return true;
}

/* No key has the name of the semaphore. */
static void a_semaphore_whose_number_is_missing_is_found_by_its_permits(void **state)
{
    static const struct {
        const char *key, *pattern, *seen;
    } all[] = {
        {"{jobs}:timeout", "jobs", "jobs:1:1 "},
        {"{jobs}:timeout", "*", "jobs:1:1 "},
        {"{jobs}:timeout", "job?", "jobs:1:1 "},
        {"{jobs}:timeout", "jab*", ""},
        {"a{b}:timeout", "*", "a{b}:1:1 "},
        {"a{b}:timeout", "a{*", "a{b}:1:1 "},
        {"{b}c:timeout", "*", "{b}c:1:1 "},
        {"jobs:timeout", "*", ""}, /* of another program */
        {"{}:timeout", "*", ""},
        {":timeout", "*", ""},
    };
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_client *other = fixture_client(f, &(struct relock_options){.name_prefix = "jo"});

    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        struct view view = {0};

        probe_int(f->probe, "ZADD %s 922337203685477 " PEER_PERMIT, all[i].key);
        assert_result(relock_locks(client, all[i].pattern, note_unset, &view), RELOCK_OK);
        assert_string_equal(view.text, all[i].seen);
        view.text[0] = '\0';
        assert_result(relock_locks(other, "*", note_unset, &view), RELOCK_OK);
        assert_string_equal(view.text, strncmp(all[i].key, "{jobs", 5) == 0 ? "bs:1:1 " : "");
        probe_int(f->probe, "ZADD %s 1 " PEER_PERMIT, all[i].key); /* it has expired */
        view.text[0] = '\0';
        assert_result(relock_locks(client, "*", note_unset, &view), RELOCK_OK);
        assert_string_equal(view.text, "");
        probe_int(f->probe, "DEL %s", all[i].key);
    }
}

/* SCAN finds `{jobs}:timeout`, but the name of its semaphore, `jobs`, has no such prefix. */
static void a_name_without_the_prefix_of_the_client_is_not_reported(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.name_prefix = "{jobs}"});
    struct view view = {0};

    probe_int(f->probe, "ZADD {jobs}:timeout 922337203685477 " PEER_PERMIT);
    probe_int(f->probe, "ZADD {jobs}x:timeout 922337203685477 " PEER_PERMIT);
    assert_result(relock_locks(client, "*", note_unset, &view), RELOCK_OK);
    assert_string_equal(view.text, "x:1:1 ");
    probe_int(f->probe, "DEL {jobs}:timeout");
    probe_int(f->probe, "DEL {jobs}x:timeout");
}

#define EIGHTY "0123456789012345678901234567890123456789012345678901234567890123456789-123456789"

/* Redisson before 3.17 and other libraries: texts, also those that begin like each other. */
static void permits_of_other_libraries_have_ids_of_any_length(void **state)
{
    static const char *const ids[] = {"",
                                      "x",
                                      UUID "1",
                                      UUID "2",
                                      "0123456789abcd",
                                      "0123456789abcdef",
                                      "0123456789abcdefg",
                                      EIGHTY EIGHTY "1"};
    const size_t n = sizeof(ids) / sizeof(*ids);
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = semaphore_of_five(f, client);
    char text[32];

    for (size_t i = 0; i < n; i++)
        probe_int(f->probe, "ZADD {jobs}:timeout 92233720368547%d %s", (int)i, ids[i]);
    for (size_t i = 0; i < n; i++) {
        struct view view = {0};
        bool held = false;

        (void)snprintf(text, sizeof(text), "9: %zu free, %zu out", 5 + i, n - i);
        view = see_semaphore(client, "jobs");
        if (strncmp(view.text, text, strlen(text)) != 0)
            fail_msg("%s", view.text);
        view.text[0] = '\0';
        assert_result(relock_locks(client, "jobs", note_first_id, &view), RELOCK_OK);
        assert_int_equal(strlen(view.text), strlen(ids[i]) < 128 ? 2 * strlen(ids[i]) : 256);
        assert_result(relock_force_unlock_permit(lock, view.text, &held), RELOCK_OK);
        assert_true(held);
    }
    for (size_t i = 0; i < n; i++)
        probe_int(f->probe, "ZADD {jobs}:timeout 92233720368547%d %s", (int)i, ids[i]);
    for (size_t i = 0; i < n; i++) {
        struct relock_holder holder;

        assert_result(relock_who_holds(lock, &holder), RELOCK_OK);
        assert_int_equal(holder.hold_count, 1);
        assert_result(relock_force_unlock(lock), RELOCK_OK);
    }
    (void)snprintf(text, sizeof(text), "12: %zu free, 0 out", 5 + 2 * n);
    assert_string_equal(see_semaphore(client, "jobs").text, text);
    probe_int(f->probe, "DEL jobs");
}

/* A latch, an unleased semaphore and a semaphore whose permits are all free look the same. */
static void only_the_name_of_a_number_says_what_it_may_be(void **state)
{
    static const struct {
        const char *name, *value, *seen;
        bool is_listed;
    } all[] = {
        {"start:latch", "3", "11:0 3", true},
        {"start:latch", "0", "11:0 0", false},
        {"countdownlatch-7", "1", "11:0 1", true},
        {"batch", "1", "12:1 1", false},
        {"semaphore:jobs", "0", "10:0 0", true},
        {"semaphore:jobs", "-2", "10:0 -2", true},
        {"semaphore:jobs", "2", "10:0 2", false},
        {"visits", "9223372036854775807", "12:1 9223372036854775807", false},
        {"visits", "9223372036854775808", "6:1 0", false}, /* no number for Redis */
        {"visits", "18446744073709551615", "6:1 0", false},
        {"visits", "0", "12:1 0", false},
    };
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);

    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        struct view view = {0};

        probe_text(f->probe, "SET %s %s", all[i].name, all[i].value);
        assert_result(relock_locks(client, all[i].name, note_number, &view), RELOCK_OK);
        assert_string_equal(view.text, all[i].seen);
        view = (struct view){0};
        assert_result(relock_locks(client, "*", note_number, &view), RELOCK_OK);
        assert_string_equal(view.text, all[i].is_listed ? all[i].seen : "");
        probe_int(f->probe, "DEL %s", all[i].name);
    }
}

/* Redis knows neither who they are nor how many threads of a client wait. */
static void clients_that_wait_for_a_number_are_counted_and_say_what_it_is(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL), *watcher = fixture_client(f, NULL);
    struct latch_wait wait = {latch_of(client, "start"), RELOCK_FOREVER, NULL};
    struct permits_wait permits = {semaphore_of(client, "jobs"), 1, RELOCK_FOREVER, NULL};
    struct actor *actors[] = {actor_start(), actor_start(), actor_start()};
    struct listener *javas;
    bool set;

    assert_result(relock_latch_try_set(wait.latch, 1, &set), RELOCK_OK);
    assert_result(relock_unleased_try_set(permits.semaphore, 0, &set), RELOCK_OK);
    assert_true(is_seen_as(watcher, "start", "start:12:0 "));
    actor_begin(actors[0], latch_step, &wait);
    actor_begin(actors[1], latch_step, &wait);
    actor_begin(actors[2], permits_step, &permits);
    assert_true(wait_for_waiters(client, 3));
    assert_true(
        wait_until(is_as_expected, &(struct expected){watcher, "start", "start:11:1 "}, SOON_MS));
    assert_true(
        wait_until(is_as_expected, &(struct expected){watcher, "jobs", "jobs:10:1 "}, SOON_MS));
    javas = listener_open(f->server->socket, "redisson_countdownlatch__channel__{start}");
    assert_true(is_seen_as(watcher, "start", "start:11:2 "));
    assert_true(is_seen_as(watcher, "st*", "start:11:2 "));
    listener_close(javas);
    javas = listener_open(f->server->socket, "redisson_sc:{latch}");
    probe_text(f->probe, "SET latch 0");
    assert_true(is_seen_as(watcher, "latch", "latch:10:1 ")); /* whatever its name */
    listener_close(javas);
    assert_result(relock_latch_count_down(wait.latch), RELOCK_OK);
    assert_result(relock_unleased_release(permits.semaphore, 1), RELOCK_OK);
    for (int i = 0; i < 3; i++)
        assert_result(actor_result(actors[i]), RELOCK_OK);
    probe_text(f->probe, "SET start 1"); /* the client listens on for a second or two */
    assert_true(
        wait_until(is_as_expected, &(struct expected){watcher, "start", "start:12:0 "}, SOON_MS));
    probe_text(f->probe, "FLUSHALL");
}

/* More than are free. Without it, the number may be anything. */
static void a_semaphore_for_whose_permits_a_client_waits_is_listed(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL), *watcher = fixture_client(f, NULL);
    struct permits_wait permits = {semaphore_of(client, "jobs"), 3, RELOCK_FOREVER, NULL};
    struct actor *actor = actor_start();
    bool set;

    assert_result(relock_unleased_try_set(permits.semaphore, 2, &set), RELOCK_OK);
    assert_true(is_seen_as(watcher, "j*", ""));
    actor_begin(actor, permits_step, &permits);
    assert_true(
        wait_until(is_as_expected, &(struct expected){watcher, "j*", "jobs:10:1 "}, SOON_MS));
    assert_result(relock_unleased_release(permits.semaphore, 1), RELOCK_OK);
    assert_result(actor_result(actor), RELOCK_OK);
    assert_result(relock_unleased_release(permits.semaphore, 3), RELOCK_OK);
    /* The client listens on for a second or two. */
    assert_true(wait_until(is_as_expected, &(struct expected){watcher, "j*", ""}, SOON_MS));
    probe_text(f->probe, "FLUSHALL");
}

/* All permits are the sum of two numbers, which a program may add. */
static void a_number_that_no_semaphore_can_have_is_no_semaphore(void **state)
{
    static const struct {
        const char *value, *seen;
    } all[] = {
        {"2147483647", "9: 2147483647 free, 1 out; " PEER_PERMIT_HEX " 1 0"},
        {"-2147483647", "9: -2147483647 free, 1 out; " PEER_PERMIT_HEX " 1 0"},
        {"2147483648", "12: 2147483648 free, 0 out"},
        {"9223372036854775807", "12: 9223372036854775807 free, 0 out"},
    };
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);

    probe_int(f->probe, "ZADD {jobs}:timeout 922337203685477 " PEER_PERMIT);
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        probe_text(f->probe, "SET jobs %s", all[i].value);
        assert_string_equal(see_semaphore(client, "jobs").text, all[i].seen);
    }
    probe_int(f->probe, "DEL jobs {jobs}:timeout");
}

static void keys_that_belong_to_locks_are_no_locks(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct view view;

    probe_text(f->probe, "SET {lock}:" PEER ":rwlock_timeout:1 " UUID " PX 30000");
    probe_text(f->probe, "SET redisson_unlock_latch:{lock}:" UUID " " UUID " PX 30000");
    assert_string_equal(see(client, "*", &view), "");
    probe_int(f->probe, "DEL {lock}:" PEER ":rwlock_timeout:1 redisson_unlock_latch:{lock}:" UUID);
}

static void the_callback_can_end_the_search_and_call_the_library(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct view view = {.most = 1};

    assert_true(peer_lock(f->probe, "one", PEER, LEASE_MS));
    assert_true(peer_lock(f->probe, "two", PEER, LEASE_MS));
    assert_result(relock_locks(client, "*", note_lock, &view), RELOCK_OK);
    assert_int_equal(strlen(view.text), strlen("one:1:1:0 "));
    assert_true(peer_unlock(f->probe, "one", PEER));
    assert_true(peer_unlock(f->probe, "two", PEER));
    assert_result(relock_locks(client, NULL, note_lock, &view), RELOCK_E_INVALID);
    assert_result(relock_locks(client, "*", NULL, &view), RELOCK_E_INVALID);
    assert_result(relock_waiters(client, "", note_waiter, &view), RELOCK_E_INVALID);
}

static void a_holder_has_the_name_of_its_client(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.client_name = "billing:7"});
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct view view = {0};

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_locks(client, "orders", note_name, &view), RELOCK_OK);
    assert_string_equal(view.text, "billing:7");
    assert_result(relock_unlock(lock), RELOCK_OK);

    assert_true(peer_lock(f->probe, "orders", PEER, LEASE_MS));
    view = (struct view){0};
    assert_result(relock_locks(client, "orders", note_name, &view), RELOCK_OK);
    assert_string_equal(view.text, "");
    assert_true(peer_unlock(f->probe, "orders", PEER));
}

static void a_client_in_line_is_reported(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.client_name = "waiter:1"});
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct actor *waiter = actor_start();
    struct view view = {0};

    waiter_begin(f, waiter, lock);
    assert_result(relock_waiters(client, "orders", note_waiter, &view), RELOCK_OK);
    assert_string_equal(view.text, "1:0:line:waiter:1 ");
    assert_string_equal(see(client, "orders", &view), "orders:1:1:1 ");
    waiter_gets_in(f, waiter, lock);
    view = (struct view){0};
    assert_result(relock_waiters(client, "orders", note_waiter, &view), RELOCK_OK);
    assert_string_equal(view.text, "");
}

static bool count_waiter(const struct relock_waiter_info *info, void *arg)
{
    *(unsigned *)arg = info->place;
    return true;
}

static void a_long_line_is_reported_as_far_as_a_reply_goes(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct view view;
    unsigned n = 0;

    assert_true(peer_lock(f->probe, "orders", PEER, LEASE_MS));
    probe_int(f->probe, "EVAL %s 0",
              "for i = 1, 600 do redis.call('rpush', 'relock_waiters:{orders}', 'w' .. i) end "
              "return 1");
    assert_result(relock_waiters(client, "orders", count_waiter, &n), RELOCK_OK);
    assert_int_equal(n, 500);
    assert_string_equal(see(client, "orders", &view), "orders:1:1:600 ");
    probe_int(f->probe, "DEL orders relock_waiters:{orders}");
}

static void an_owner_in_a_fair_queue_is_reported(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.client_name = "waiter:1"});
    struct relock_lock *lock = fair_handle(f, client);
    struct actor *waiter = actor_start();
    struct view view = {0};

    assert_true(peer_lock(f->probe, "orders", PEER, LEASE_MS));
    fair_queue_begin(f, waiter, lock, 1);
    assert_result(relock_waiters(client, "orders", note_waiter, &view), RELOCK_OK);
    assert_string_equal(view.text, "1:0:fair:waiter:1 ");
    assert_string_equal(see(client, "orders", &view), "orders:3:1:1 ");
    /* The peer's release would tell the waiters of a reentrant lock. */
    assert_result(relock_force_unlock(lock), RELOCK_OK);
    assert_gets_in(waiter, lock);
}

static bool note_server(const struct relock_server_info *info, void *arg)
{
    note(arg, "%s%s%s", strstr(info->info, "redis_version:") ? "version " : "",
         info->round_trip_us > 0 ? "trip " : "",
         info->clock_ahead_ms > -60000 && info->clock_ahead_ms < 60000 ? "clock" : "");
    return true;
}

static void a_server_is_described(void **state)
{
    struct fixture *f = *state;
    struct view view = {0};

    assert_result(relock_servers(fixture_client(f, NULL), note_server, &view), RELOCK_OK);
    assert_string_equal(view.text, "version trip clock");
}

static void without_rights_it_is_an_error_and_is_logged(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client;
    struct view view = {0};

    probe_text(f->probe, "ACL SETUSER reader on >secret ~* &* +@all -type");
    client = fixture_client(f, &(struct relock_options){.user = "reader", .password = "secret"});
    assert_true(peer_lock(f->probe, "orders", PEER, LEASE_MS));
    assert_result(relock_locks(client, "orders", note_lock, &view), RELOCK_E_AUTH);
    assert_result(relock_locks(client, "*", note_lock, &view), RELOCK_E_AUTH);
    assert_true(log_wait(f->log, "locks were not read", SOON_MS));
    probe_text(f->probe, "ACL SETUSER reader +type");
    assert_result(relock_locks(client, "*", note_lock, &view), RELOCK_OK);
    assert_string_equal(view.text, "orders:1:1:0 ");
    assert_true(peer_unlock(f->probe, "orders", PEER));
    fixture_free_client(f, client);
    probe_text(f->probe, "ACL DELUSER reader");
}

struct nested {
    struct relock_client *client;
    struct view view;
};

static bool sees_a_nested_wait(void *arg)
{
    struct nested *nested = arg;

    nested->view = (struct view){0};
    return relock_nested_waits(nested->client, note_nested, &nested->view) == RELOCK_OK &&
           *nested->view.text;
}

static void a_wait_of_an_owner_with_another_lock_is_seen(void **state)
{
    struct fixture *f = *state;
    const struct relock_options options = {
        .client_name = "shop", .name_prefix = "shop:", .deadlock_ms = 100};
    struct nested nested = {.client = fixture_client(f, &options)};
    struct relock_lock *mine = fixture_lock(f, nested.client, "mine");
    struct relock_lock *theirs = fixture_lock(f, nested.client, "theirs");
    struct actor *actor = actor_start();
    struct relock_client *stranger = fixture_client(f, NULL);
    char expected[128];

    assert_false(sees_a_nested_wait(&nested));
    assert_true(peer_lock(f->probe, "shop:theirs", PEER, LEASE_MS));
    assert_result(actor_lock(actor, mine), RELOCK_OK);
    snprintf(expected, sizeof(expected), "theirs:shop:%s:1 ",
             probe_only_field(f->probe, "shop:mine") + strlen(relock_client_id(stranger)) + 1);
    actor_begin_lock(actor, theirs);
    assert_true(wait_until(sees_a_nested_wait, &nested, SOON_MS));
    assert_string_equal(nested.view.text, expected);
    assert_true(peer_unlock(f->probe, "shop:theirs", PEER));
    assert_gets_in(actor, theirs);
    assert_result(actor_unlock(actor, mine), RELOCK_OK);
    assert_true(wait_for_no_keys(f->probe));
    assert_result(relock_nested_waits(NULL, note_nested, NULL), RELOCK_E_INVALID);
    assert_result(relock_nested_waits(stranger, NULL, NULL), RELOCK_E_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_wait_of_an_owner_with_another_lock_is_seen),
        FENCED_TEST(a_held_lock_of_each_kind_is_recognised),
        SERVER_TEST(a_pattern_finds_all_locks_that_match_and_nothing_else),
        SERVER_TEST(a_name_is_reported_whatever_its_key_is),
        SERVER_TEST(what_other_libraries_write_is_recognised),
        SERVER_TEST(the_library_of_a_plain_lock_is_named_if_it_is_the_only_one),
        SERVER_TEST(a_sorted_set_may_be_a_lock_of_another_library),
        SERVER_TEST(a_semaphore_shows_who_has_its_permits),
        SERVER_TEST(a_semaphore_with_a_line_shows_itself_also_while_all_permits_are_free),
        SERVER_TEST(the_holder_of_a_semaphore_is_the_acquire_that_expires_first),
        SERVER_TEST(a_client_in_the_line_of_a_semaphore_is_reported),
        SERVER_TEST(the_permits_of_an_acquire_have_an_age),
        SERVER_TEST(the_ages_of_many_acquires_are_read_by_few_scripts),
        SERVER_TEST(the_permits_of_one_acquire_can_be_taken_back),
        SERVER_TEST(a_semaphore_whose_number_is_missing_is_found_by_its_permits),
        SERVER_TEST(a_name_without_the_prefix_of_the_client_is_not_reported),
        SERVER_TEST(permits_of_other_libraries_have_ids_of_any_length),
        SERVER_TEST(only_the_name_of_a_number_says_what_it_may_be),
        NUMBER_TEST(clients_that_wait_for_a_number_are_counted_and_say_what_it_is),
        NUMBER_TEST(a_semaphore_for_whose_permits_a_client_waits_is_listed),
        SERVER_TEST(a_number_that_no_semaphore_can_have_is_no_semaphore),
        SERVER_TEST(keys_that_belong_to_locks_are_no_locks),
        SERVER_TEST(the_callback_can_end_the_search_and_call_the_library),
        SERVER_TEST(a_holder_has_the_name_of_its_client),
        SERVER_TEST(a_client_in_line_is_reported),
        SERVER_TEST(a_long_line_is_reported_as_far_as_a_reply_goes),
        SERVER_TEST(an_owner_in_a_fair_queue_is_reported),
        SERVER_TEST(a_server_is_described),
        SERVER_TEST(without_rights_it_is_an_error_and_is_logged),
    };

    return SERVER_TESTS_RUN(tests);
}
