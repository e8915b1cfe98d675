/* `relock list` on a server with a lock of each library that build.sh has built. The program has no
 * library as its argument: those that are missing are skipped by name. */
#include "cli/tool.h"
#include "support/player.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct row {
    const char *library; /* of its folder */
    const char *before;  /* the name, in the key */
    const char *kind;    /* in the list. With a question mark: several libraries have such values */
    const char *leaves;  /* a key that stays; NULL: none */
} rows[] = {
    {"bsm-redislock", "", "plain?", NULL},
    {"django-redis", ":1:", "plain (django-redis)", NULL},
    {"node-redlock", "", "plain?", NULL},
    {"pottery", "redlock:", "plain (pottery)", NULL},
    {"python-redis-lock", "lock:", "plain (python-redis-lock)", NULL},
    {"redis-lock", "lock.", "plain (redis-lock)", NULL},
    {"redis-py", "", "plain (redis-py)", NULL},
    {"redis-semaphore", "mutex:", "plain (redis-semaphore)", NULL},
    {"redlock-py", "", "plain?", NULL},
    {"redlock-universal", "", "plain?", NULL},
    {"redsync", "", "plain?", NULL},
    {"rslock", "", "plain?", NULL},
    {"rueidislock", "rueidislock:0:", "plain (rueidislock)", NULL},
    {"sesamecare-redlock", "", "plain?", NULL},
    {"shedlock", "job-lock:default:", "plain (shedlock)", NULL},
    {"simple-redis-mutex", "@simple-redis-mutex:lock-", "plain (simple-redis-mutex)",
     "@simple-redis-mutex:fencing-tokens"},
    {"spring-integration", "shop:", "plain?", NULL},
    {"spring-integration-spin", "shop:", "plain?", NULL},
};

#define N_ROWS (sizeof(rows) / sizeof(*rows))

static char program[4096];

/* Whether it is built. Sets `program`. */
static bool find_program(const struct row *row)
{
    const char *below = getenv("RELOCK_TEST_INTEROP");
    char built[4096];

    (void)snprintf(program, sizeof(program), "%s/%s/run", below ? below : "", row->library);
    (void)snprintf(built, sizeof(built), "%s/%s/built", below ? below : "", row->library);
    return below && access(built, R_OK) == 0;
}

static struct player *hold(struct fixture *f, size_t i)
{
    const char *const argv[] = {program, f->server->tcp_url, NULL};
    struct player *player = player_start(argv);

    assert_string_equal(player_do(player, "ann", "lock orders%zu 60000", i), "ok");
    return player;
}

static const char *read_kind(const char *list, const struct row *row, size_t i, char kind[64])
{
    char name[64];
    const char *line;

    (void)snprintf(name, sizeof(name), "%sorders%zu ", row->before, i);
    for (line = list; line && strncmp(line, name, strlen(name)) != 0;) {
        line = strchr(line, '\n');
        line += line ? 1 : 0;
    }
    if (!line)
        return "not listed";
    line += strlen(name);
    line += strspn(line, " ");
    (void)snprintf(kind, 64, "%.*s", (int)(strstr(line, "  ") - line), line);
    return kind;
}

static void each_library_has_its_name_in_the_list(void **state)
{
    struct fixture *f = *state;
    struct player *players[N_ROWS] = {NULL};
    struct tool *tool;
    char kind[64];

    f->neighbours = "=player";
    probe_text(f->probe, "ACL SETUSER player on nopass ~* &* +@all");
    for (size_t i = 0; i < N_ROWS; i++) {
        if (find_program(&rows[i]))
            players[i] = hold(f, i);
        else
            print_message("no %s, which ./tests/run.sh interop builds: skipped\n", rows[i].library);
    }
    tool = tool_start(f, "list");
    assert_int_equal(tool_wait(tool), 0);
    (void)printf("%s", tool_out(tool)); /* too long for print_message() */
    for (size_t i = 0; i < N_ROWS; i++)
        if (players[i] && strcmp(read_kind(tool_out(tool), &rows[i], i, kind), rows[i].kind) != 0)
            fail_msg("%s: %s", rows[i].library, read_kind(tool_out(tool), &rows[i], i, kind));
    for (size_t i = 0; i < N_ROWS; i++) {
        if (!players[i])
            continue;
        assert_string_equal(player_do(players[i], "ann", "unlock orders%zu", i), "ok");
        player_end(players[i]);
        if (rows[i].leaves)
            probe_int(f->probe, "DEL %s", rows[i].leaves);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {TOOL_TEST(each_library_has_its_name_in_the_list)};
    size_t n = 0;

    for (size_t i = 0; i < N_ROWS; i++)
        n += find_program(&rows[i]);
    if (n == 0) {
        fprintf(stderr, "no library, which ./tests/run.sh interop builds: skipped\n");
        return SERVER_EXIT_SKIP;
    }
    return cmocka_run_group_tests(tests, fixture_start_tcp, fixture_stop);
}
