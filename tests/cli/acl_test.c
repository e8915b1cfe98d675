/*
 * relock acl: what it prints suffices, and nothing of it can be left out. relock doctor --kind
 * tries just these rights.
 */
#include "cli/tool.h"
#include "support/listener.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PASSWORD "secret"
#define USER "locker"
#define MOST_RIGHTS 80
#define RIGHTS_LEN 4096
#define TRIES 3

/* ---- users --------------------------------------------------------------------------------- */

/* The rights for locks whose names begin with "@". */
struct rights {
    char text[RIGHTS_LEN];
    const char *words[MOST_RIGHTS];
    size_t n;
};

/* `kind`: or --operator. */
static void read_rights(struct fixture *f, const char *kind, struct rights *rights)
{
    struct tool *tool = tool_start(f, "acl", kind, "--prefix", "@");
    const char *const begins = "ACL SETUSER " USER " ";

    assert_int_equal(tool_wait(tool), 0);
    assert_memory_equal(tool_out(tool), begins, strlen(begins));
    (void)snprintf(rights->text, RIGHTS_LEN, "%s", tool_out(tool) + strlen(begins));
    rights->n = 0;
    for (char *at = rights->text, *word; (word = strtok(at, " \n")); at = NULL) {
        assert_in_range(rights->n, 0, MOST_RIGHTS - 1);
        rights->words[rights->n++] = word;
    }
    assert_string_equal(rights->words[0], "resetchannels");
}

#define ALL ((size_t)-1)

/* Makes the user with these rights, for locks whose names begin with the user's, but one. */
static void give(struct fixture *f, const char *user, const struct rights *rights, size_t without)
{
    char text[RIGHTS_LEN] = "", *at = text;

    for (size_t i = 0; i < rights->n; i++) {
        if (i == without)
            continue;
        *at++ = ' ';
        for (const char *from = rights->words[i]; *from; from++)
            if (*from == '@')
                at = stpcpy(at, user);
            else
                *at++ = *from;
        assert_in_range(at - text, 0, RIGHTS_LEN - 200);
    }
    *at = '\0';
    assert_true(probe_make_user(f->probe, user, PASSWORD, text));
}

static struct tool *start_as(struct fixture *f, const char *user, const char *const *words)
{
    struct tool *tool;

    assert_int_equal(setenv("RELOCK_USER", user, 1), 0);
    assert_int_equal(setenv("RELOCK_PASSWORD", PASSWORD, 1), 0);
    assert_int_equal(setenv("RELOCK_COMMAND_TIMEOUT", "1s", 1), 0); /* to release what it may not */
    tool = tool_start_words(f, false, words);
    unsetenv("RELOCK_COMMAND_TIMEOUT");
    unsetenv("RELOCK_USER");
    unsetenv("RELOCK_PASSWORD");
    return tool;
}

static struct tool *start_doctor(struct fixture *f, const char *user, const char *kind)
{
    return start_as(f, user, (const char *const[]){"doctor", "--kind", kind, "--name", user, NULL});
}

/* Whether the server has refused something to this user. */
static bool was_refused(struct fixture *f, const char *user)
{
    redisReply *log = probe_reply(f->probe, "ACL LOG 1000");
    bool found = false;

    assert_non_null(log);
    for (size_t i = 0; i < log->elements; i++)
        for (size_t j = 0; j + 1 < log->element[i]->elements; j += 2)
            found |= strcmp(log->element[i]->element[j]->str, "username") == 0 &&
                     strcmp(log->element[i]->element[j + 1]->str, user) == 0;
    freeReplyObject(log);
    return found;
}

static bool is_content(struct tool *tool)
{
    return !strstr(tool_out(tool), "bad ") && !strstr(tool_out(tool), "note  log") &&
           !strstr(tool_out(tool), "note  server") && !strstr(tool_out(tool), "note  clock");
}

static int begin(void **state)
{
    struct fixture *f;
    int r = tool_begin(state);

    f = *state;
    probe_text(f->probe, "CONFIG SET acllog-max-len 1000");
    probe_text(f->probe, "ACL LOG RESET");
    return r;
}

/* Without its rights, a doctor cannot release its locks. */
static int end(void **state)
{
    struct fixture *f = *state;

    probe_text(f->probe, "FLUSHALL");
    return tool_end(state);
}

/* ---- the kinds ----------------------------------------------------------------------------- */

static void suffice(struct fixture *f, const char *kind, const struct rights *rights)
{
    struct tool *tool;

    give(f, USER, rights, ALL);
    tool = start_doctor(f, USER, kind);
    if (tool_wait(tool) != 0 || !is_content(tool) || was_refused(f, USER))
        fail_msg("%s: %s%s", kind, tool_out(tool), probe_list(f->probe, "ACL LOG"));
}

/* The lack of these shows only if something fails, or by chance: most have tests of their own. */
static bool is_for_failures(const char *kind, const char *right)
{
    static const char *const others[][2] = {
        {NULL, "+client|kill"},       /* a_missing_right_to_kill_is_logged_once */
        {NULL, "+pexpireat"},         /* of renewals of many locks: kinds_rights_test.c */
        {"fair", "+lpop"},            /* a_right_for_dead_waiters_is_needed */
        {"spin", "+publish"},         /* a_right_for_deadlocks_is_needed */
        {"plain", "+publish"},        /* the same */
        {"semaphore", "+llen"},       /* of a line that lost its hash */
        {"semaphore", "+lrange"},     /* the same */
        {"semaphore", "+zrange"},     /* to free it by force: kinds_rights_test.c */
        {"unleased", "+unsubscribe"}, /* after a while without waiters: unleased_test.c */
        {"latch", "+unsubscribe"},    /* the same: latch_test.c */
        {"--operator", "+pexpire"},   /* one release of sixteen prolongs the line */
        /* to break locks of other libraries: interop/takeover_test.c */
        {"--operator", "+lpush"},
        {"--operator", "~lock-signal:*"},
        {"--operator", "&@simple-redis-mutex:locks-releases"},
    };

    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        if ((!others[i][0] || strcmp(others[i][0], kind) == 0) && strcmp(others[i][1], right) == 0)
            return true;
    return false;
}

/* All doctors at the same time, each without another right. Takes those whose lack shows from
 * `missed`: the doctor says so, or only the server does, because the library bears it. */
static void try_without(struct fixture *f, const char *kind, const struct rights *rights,
                        bool missed[MOST_RIGHTS])
{
    struct tool *doctors[MOST_RIGHTS];
    char user[32];

    for (size_t i = 0; i < rights->n; i++) {
        (void)snprintf(user, sizeof(user), "u%zu.", i);
        give(f, user, rights, i);
        if (strcmp(rights->words[i], "+script|load") == 0)
            probe_text(f->probe, "SCRIPT FLUSH");
        doctors[i] = missed[i] ? start_doctor(f, user, kind) : NULL;
    }
    for (size_t i = 0; i < rights->n; i++) {
        if (!doctors[i])
            continue;
        (void)snprintf(user, sizeof(user), "u%zu.", i);
        assert_in_range(tool_wait(doctors[i]), 0, 1);
        missed[i] = is_content(doctors[i]) && !was_refused(f, user);
    }
}

static void are_needed(struct fixture *f, const char *kind, const struct rights *rights)
{
    bool missed[MOST_RIGHTS];

    for (size_t i = 0; i < rights->n; i++)
        missed[i] = strcmp(rights->words[i], "resetchannels") != 0 &&
                    !is_for_failures(kind, rights->words[i]);
    for (int i = 0; i < TRIES; i++)
        try_without(f, kind, rights, missed);
    for (size_t i = 0; i < rights->n; i++)
        if (missed[i])
            fail_msg("%s does not need %s", kind, rights->words[i]);
}

static void check(void **state, const char *kind)
{
    struct fixture *f = *state;
    struct rights rights;

    read_rights(f, kind, &rights);
    if (strcmp(kind, "latch") == 0 || strcmp(kind, "unleased") == 0)
        rights.words[rights.n++] = "+time"; /* for the doctor, which looks at the clock */
    if (strcmp(kind, "unleased") == 0) {    /* and deletes the number */
        rights.words[rights.n++] = "+pttl";
        rights.words[rights.n++] = "+del";
    }
    suffice(f, kind, &rights);
    are_needed(f, kind, &rights);
}

static void a_reentrant_lock_needs_just_its_rights(void **state)
{
    check(state, "reentrant");
}

static void a_spin_lock_needs_just_its_rights(void **state)
{
    check(state, "spin");
}

static void a_fenced_lock_needs_just_its_rights(void **state)
{
    check(state, "fenced");
}

static void a_fair_lock_needs_just_its_rights(void **state)
{
    check(state, "fair");
}

static void a_read_write_lock_needs_just_its_rights(void **state)
{
    check(state, "read-write");
}

static void a_plain_lock_needs_just_its_rights(void **state)
{
    check(state, "plain");
}

static void an_announced_plain_lock_needs_just_its_rights(void **state)
{
    check(state, "announced-plain");
}

static void a_semaphore_needs_just_its_rights(void **state)
{
    check(state, "semaphore");
}

static void an_unleased_semaphore_needs_just_its_rights(void **state)
{
    check(state, "unleased");
}

static void a_latch_needs_just_its_rights(void **state)
{
    check(state, "latch");
}

static void the_doctor_of_a_kind_needs_no_right_to_others(void **state)
{
    struct fixture *f = *state;
    struct rights rights;
    struct tool *tool;

    read_rights(f, "spin", &rights);
    give(f, USER, &rights, ALL);
    assert_int_equal(tool_wait(start_doctor(f, USER, "fair")), 1);
    tool = start_doctor(f, USER, "spin");
    assert_int_equal(tool_wait(tool), 0);
    assert_null(strstr(tool_out(tool), "fair"));
    assert_tool(f, 125, "doctor", "--kind", "other");
}

/* ---- the line ------------------------------------------------------------------------------ */

/* The words that a shell passes to a command. */
static void assert_words(const char *line, const char *const *words)
{
    char command[RIGHTS_LEN], word[256];
    FILE *shell;

    (void)snprintf(command, sizeof(command), "printf '%%s\\n' %s", line);
    shell = popen(command, "r");
    assert_non_null(shell);
    for (; *words; words++) {
        assert_non_null(fgets(word, sizeof(word), shell));
        word[strcspn(word, "\n")] = '\0';
        assert_string_equal(word, *words);
    }
    while (fgets(word, sizeof(word), shell))
        ;
    assert_int_equal(pclose(shell), 0);
}

static void a_shell_leaves_the_quoted_line_as_it_is(void **state)
{
    static const char *const words[] = {"ACL",
                                        "SETUSER",
                                        "o'hara",
                                        "resetchannels",
                                        "~it's?\"a\"?$x?\\*{b}*",
                                        "~relock_waits:{*",
                                        "&__redis__:invalidate",
                                        "&relock_client:{*",
                                        "+evalsha",
                                        "+script|load",
                                        NULL};
    struct fixture *f = *state;
    struct tool *tool =
        tool_start(f, "acl", "-s", "--user", "o'hara", "spin", "--prefix", "it's \"a\" $x *{b}");

    assert_int_equal(tool_wait(tool), 0);
    assert_words(tool_out(tool), words);
}

/* Redis takes no rights and no names of users with spaces. */
static void no_line_has_further_words(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "acl", "spin", "--prefix", "a b\tc");

    assert_int_equal(tool_wait(tool), 0);
    assert_non_null(strstr(tool_out(tool), " ~a?b?c* "));
    assert_tool(f, 125, "acl", "spin", "--user", "");
    assert_tool(f, 125, "acl", "spin", "--user", "a b");
    assert_int_equal(setenv("RELOCK_USER", "", 1), 0);
    tool = tool_start(f, "acl", "spin");
    unsetenv("RELOCK_USER");
    assert_int_equal(tool_wait(tool), 0);
    assert_non_null(strstr(tool_out(tool), "SETUSER locker resetchannels "));
}

static void redis_takes_the_rights_to_all_names(void **state)
{
    struct fixture *f = *state;
    struct tool *tool =
        tool_start(f, "acl", "reentrant", "fair", "read-write", "--operator", "--user", USER);
    const char *const begins = "ACL SETUSER " USER;
    char text[RIGHTS_LEN];

    assert_int_equal(tool_wait(tool), 0);
    (void)snprintf(text, sizeof(text), "%s", tool_out(tool) + strlen(begins));
    text[strcspn(text, "\n")] = '\0';
    assert_non_null(strstr(text, " ~* "));
    assert_true(probe_make_user(f->probe, USER, PASSWORD, text));
}

static void a_prefix_with_a_brace_needs_no_further_one(void **state)
{
    struct fixture *f = *state;
    struct tool *tool = tool_start(f, "acl", "fenced", "--prefix", "{shop}:");

    assert_int_equal(tool_wait(tool), 0);
    assert_non_null(strstr(tool_out(tool), " ~redisson_lock_token:{shop}:* "));
    assert_non_null(strstr(tool_out(tool), " ~relock_waiters::{shop}:* "));
    assert_non_null(strstr(tool_out(tool), " &redisson_lock__channel:{shop}:* "));
}

static void settings_that_need_further_rights_add_them(void **state)
{
    static const struct {
        const char *url, *has, *lacks;
    } urls[] = {
        {"redis://h", "+ping", "+select"},
        {"redis://u:p@h:6379/0", "+ping", "+select"},
        {"rediss://u:p@h/3", "+select", "+asking"},
        {"redis+sentinel://h,g/3/0", "+ping", "+select"},
        {"redis+sentinel://h,g/name/3", "+select", "+asking"},
        {"unix:///run/3?db=2", "+select", "+asking"},
        {"unix:///run/3", "+ping", "+select"},
        {"rediss+cluster://h", "+spublish", "+select"},
        {"redis+cluster://h/2?pubsub=plain", "+asking", "+spublish"},
        {"valkeys+cluster://h", "+spublish", "+select"},
        {"REDISS+Cluster://h", "+spublish", "+select"},
        {"UNIX:///run/3", "+ping", "+select"},
        {"valkey+sentinel://h/3/0", "+ping", "+select"},
    };
    struct fixture *f = *state;
    struct tool *tool;

    for (size_t i = 0; i < sizeof(urls) / sizeof(*urls); i++) {
        tool = tool_start(f, "acl", "plain", "--url", urls[i].url);
        assert_int_equal(tool_wait(tool), 0);
        assert_non_null(strstr(tool_out(tool), urls[i].has));
        assert_null(strstr(tool_out(tool), urls[i].lacks));
        assert_null(strstr(tool_out(tool), "+wait"));
    }
    assert_int_equal(setenv("RELOCK_MIN_REPLICAS", "1", 1), 0);
    tool = tool_start(f, "acl", "plain");
    unsetenv("RELOCK_MIN_REPLICAS");
    assert_int_equal(tool_wait(tool), 0);
    assert_non_null(strstr(tool_out(tool), "+wait"));
    assert_tool(f, 125, "acl");
    assert_tool(f, 125, "acl", "red");
    assert_tool(f, 125, "acl", "operator");
}

/* As the library refuses it, without a connection. */
static void an_invalid_url_has_no_rights(void **state)
{
    static const struct {
        const char *url, *said;
    } urls[] = {
        {"", "relock acl: invalid url: it is empty; see `relock acl --help`\n"},
        {"h:6379", "relock acl: invalid url: it must begin with redis://"},
        {"http://h", "relock acl: invalid url: Redis does not speak HTTP"},
        {"redis://h/x", "relock acl: invalid url: the database is not a number"},
        {"redis+sentinel://h", "relock acl: invalid url: the sentinels must be followed by"},
        {"redis://h?user=u", "by RELOCK_USER and RELOCK_PASSWORD"},
    };
    struct fixture *f = *state;
    const char *const count =
        "return tonumber(redis.call('info', 'stats'):match('connections_received:(%d+)'))";
    long long n_connections;
    struct tool *tool;

    for (size_t i = 0; i < sizeof(urls) / sizeof(*urls); i++) {
        tool = tool_start(f, "acl", "plain", "--url", urls[i].url);
        assert_int_equal(tool_wait(tool), 125);
        assert_string_equal(tool_out(tool), "");
        if (strncmp(tool_err(tool), "relock acl: ", 12) != 0 ||
            !strstr(tool_err(tool), urls[i].said))
            fail_msg("%s: %s", urls[i].url, tool_err(tool));
    }
    n_connections = probe_int(f->probe, "EVAL %s 0", count);
    assert_true(n_connections > 0);
    assert_tool(f, 0, "acl", "plain"); /* for the server of the fixture */
    assert_int_equal(probe_int(f->probe, "EVAL %s 0", count), n_connections);
}

/* ---- an operator --------------------------------------------------------------------------- */

#define CLIENT "9f2c1c5e-0a53-4b6c-8f2e-5a1d3c7b9e1" /* and a digit */
#define NUMBER ":1234567890"

/* Locks of several kinds, and clients that wait for them: those with an even number live. */
static const char scene[] =
    "local function client(n) return '" CLIENT "' .. n end "
    "local function owner(n) return client(n) .. '" NUMBER "' end "
    "local function held(name, ...) "
    "  redis.call('hset', name, ...) redis.call('pexpire', name, 60000) "
    "end "
    "local now = redis.call('time')[1] * 1000 "
    "held('locker:l', owner(5), 1) "
    "redis.call('rpush', 'relock_waiters:{locker:l}', client(1), client(2), client(3), client(4)) "
    "redis.call('hset', 'relock_waiters:turn:{locker:l}', 'first', client(1), 'until', 0) "
    "held('locker:f', owner(5), 1) "
    "redis.call('set', 'redisson_lock_token:{locker:f}', 7) "
    "held('locker:w', 'mode', 'write', owner(5) .. ':write', 1, owner(5), 1) "
    "redis.call('set', '{locker:w}:' .. owner(5) .. ':rwlock_timeout:1', 1, 'px', 60000) "
    "held('locker:q', owner(5), 1) "
    "redis.call('rpush', 'redisson_lock_queue:{locker:q}', owner(1), owner(2)) "
    "redis.call('zadd', 'redisson_lock_timeout:{locker:q}', now - 1000, owner(1), "
    "  now + 10000000.5, owner(2)) "
    "redis.call('set', 'locker:lock', client(1), 'px', 60000) "
    "redis.call('zadd', 'locker:semaphore', now + 60000, client(1):gsub('-', '') .. 'x') "
    "redis.call('set', 'locker:s', 0) "
    "redis.call('zadd', '{locker:s}:timeout', now - 1000, 'abcdefghijklmnop', "
    "  now + 60000, '0123456789abcdef') "
    "redis.call('rpush', 'relock_waiters:{locker:s}', client(1), client(2), client(4)) "
    "redis.call('hset', 'relock_waiters:turn:{locker:s}', 'told', client(1), 'until', 0, "
    "  'needer', client(1), 'need', 2) "
    "redis.call('set', 'locker:go', 3) redis.call('set', 'locker:seats', 0) "
    "return redis.call('hset', 'relock_waits:{' .. client(5) .. '}', "
    "  'client', client(5) .. ' shop', '1234567890', '1 200 1 hash locker:l')";

/* All that an operator does. */
static const char *const operations[][8] = {
    {"status", "locker:l", "locker:q", "locker:lock", "locker:s"},
    {"list"},
    {"top"},
    {"waiters", "locker:l", "locker:q"},
    {"waiters", "--nested"},
    {"break", "--yes", "locker:l"},
    {"break", "--yes", "locker:f"},
    {"break", "--yes", "locker:q"},
    {"break", "--yes", "locker:w"},
    {"break", "--yes", "locker:lock"},
    {"break", "--yes", "locker:s"},
    {"break", "--yes", "--kind", "latch", "locker:go"},
    {"break", "--yes", "--kind", "unleased", "--permits", "2", "locker:seats"},
};

#define N_OPERATIONS (sizeof(operations) / sizeof(*operations))

static void set_the_scene(struct fixture *f)
{
    assert_true(probe_text(f->probe, "FLUSHALL"));
    assert_int_equal(probe_int(f->probe, "EVAL %s 0", scene), 2);
}

static void operator_succeeds(struct fixture *f)
{
    static const char *const seen[] = {"reentrant", "fair", "plain", "1 of 2 out"};

    set_the_scene(f);
    for (size_t i = 0; i < N_OPERATIONS; i++) {
        struct tool *tool = start_as(f, USER, operations[i]);

        assert_int_equal(tool_wait(tool), 0);
        for (size_t k = 0; i == 0 && k < sizeof(seen) / sizeof(*seen); k++)
            assert_non_null(strstr(tool_out(tool), seen[k]));
    }
    assert_string_equal(probe_list(f->probe, "ACL LOG"), "");
}

/* Whether one of the operations needs a right that the user lacks. */
static bool operator_is_refused(struct fixture *f)
{
    set_the_scene(f);
    for (size_t i = 0; i < N_OPERATIONS; i++) {
        (void)tool_wait(start_as(f, USER, operations[i]));
        if (was_refused(f, USER))
            return true;
    }
    return false;
}

/* Other libraries listen to the channels, and two of the clients to theirs. */
static void an_operator_needs_just_its_rights(void **state)
{
    static const char *const channels[] = {
        "redisson_lock__channel:{locker:l}", "relock_client:{" CLIENT "2}",
        "relock_client:{" CLIENT "4}", "redisson_lock__channel:{locker:q}:" CLIENT "2" NUMBER};
    struct fixture *f = *state;
    struct listener *listeners[4];
    struct rights rights;

    for (size_t i = 0; i < 4; i++)
        listeners[i] = listener_open(f->server->socket, channels[i]);
    read_rights(f, "--operator", &rights);
    give(f, USER, &rights, ALL);
    operator_succeeds(f);
    for (size_t i = 1; i < rights.n; i++) {
        if (is_for_failures("--operator", rights.words[i]))
            continue;
        give(f, USER, &rights, i);
        if (strcmp(rights.words[i], "+script|load") == 0)
            probe_text(f->probe, "SCRIPT FLUSH");
        probe_text(f->probe, "ACL LOG RESET");
        if (!operator_is_refused(f))
            fail_msg("an operator does not need %s", rights.words[i]);
    }
    for (size_t i = 0; i < 4; i++)
        listener_close(listeners[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define ACL_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)
        ACL_TEST(a_reentrant_lock_needs_just_its_rights),
        ACL_TEST(a_spin_lock_needs_just_its_rights),
        ACL_TEST(a_fenced_lock_needs_just_its_rights),
        ACL_TEST(a_fair_lock_needs_just_its_rights),
        ACL_TEST(a_read_write_lock_needs_just_its_rights),
        ACL_TEST(a_plain_lock_needs_just_its_rights),
        ACL_TEST(an_announced_plain_lock_needs_just_its_rights),
        ACL_TEST(a_semaphore_needs_just_its_rights),
        ACL_TEST(an_unleased_semaphore_needs_just_its_rights),
        ACL_TEST(a_latch_needs_just_its_rights),
        TOOL_TEST(a_shell_leaves_the_quoted_line_as_it_is),
        TOOL_TEST(no_line_has_further_words),
        ACL_TEST(redis_takes_the_rights_to_all_names),
        TOOL_TEST(a_prefix_with_a_brace_needs_no_further_one),
        TOOL_TEST(settings_that_need_further_rights_add_them),
        TOOL_TEST(an_invalid_url_has_no_rights),
        ACL_TEST(an_operator_needs_just_its_rights),
        ACL_TEST(the_doctor_of_a_kind_needs_no_right_to_others),
    };

    return SERVER_TESTS_RUN(tests);
}
