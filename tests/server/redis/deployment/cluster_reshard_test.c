/*
 * An operator moves slots with the tool of the server, while clients stand in the lines of locks of
 * these slots and have their turns. The tool moves each key by MIGRATE, which fails for good if a
 * client has made the key anew at the target.
 */
#include "support/cluster_line.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_SLOTS 100 /* that are moved: the first of the first master */
#define N_NAMES 3
#define N_WAITING 2  /* for each */
#define N_RUNNING 6  /* clients that have turns all the time */
#define N_OTHERS 300 /* keys in the slot of their lock, so that it takes a while to move it */
#define MOVING_MS 60000

/* ---- the tool ------------------------------------------------------------------------------ */

static char tool[300];

static bool find_tool(void)
{
    const char *server = getenv("RELOCK_TEST_SERVER");
    const char *end = server ? strrchr(server, '/') : NULL;
    static const char *const names[] = {"redis-cli", "valkey-cli"};

    for (size_t i = 0; end && i < 2; i++) {
        (void)snprintf(tool, sizeof(tool), "%.*s/%s", (int)(end - server), server, names[i]);
        if (access(tool, X_OK) == 0)
            return true;
    }
    for (size_t i = 0; i < 2; i++) {
        char command[64];

        (void)snprintf(command, sizeof(command), "command -v %s >/dev/null", names[i]);
        (void)snprintf(tool, sizeof(tool), "%s", names[i]);
        if (system(command) == 0)
            return true;
    }
    return false;
}

struct command {
    char text[600];
    char output[20000]; /* the end of it */
};

/* Returns the exit code. */
static int run(void *arg)
{
    struct command *command = arg;
    FILE *output = popen(command->text, "r");
    size_t len = 0, n;
    int status;

    if (!output)
        return -1;
    while ((n = fread(command->output + len, 1, sizeof(command->output) - 1 - len, output)) > 0) {
        len += n;
        if (len > sizeof(command->output) / 2) {
            memmove(command->output, command->output + len / 2, len - len / 2);
            len -= len / 2;
        }
    }
    command->output[len] = '\0';
    status = pclose(output);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- the clients --------------------------------------------------------------------------- */

struct scene {
    struct clustered *c;
    char names[N_NAMES + 1][24]; /* the last one is that of the lock that clients have turns at */
    struct relock_lock *held[N_NAMES];
    struct actor *waiting[N_NAMES][N_WAITING];
    struct actor *running[N_RUNNING];
};

static atomic_bool is_over;

static int have_turns(void *lock)
{
    int r = RELOCK_OK;

    while (r == RELOCK_OK && !atomic_load(&is_over))
        r = actor_take_turn(lock);
    return r;
}

/* Names whose slots will move. */
static void choose_names(struct scene *scene)
{
    for (int i = 0, k = 0; i <= N_NAMES; k++) {
        (void)snprintf(scene->names[i], sizeof(scene->names[i]), "orders:%d", k);
        if (cluster_slot(scene->c->cluster, scene->names[i]) < N_SLOTS)
            i++;
    }
}

/* `command` has the key as its argument. */
static void for_others(const struct scene *scene, const char *command)
{
    struct probe *probe = cluster_probe(scene->c->cluster, scene->names[N_NAMES]);
    char key[64];

    for (int i = 0; i < N_OTHERS; i++) {
        (void)snprintf(key, sizeof(key), "{%s}:%d", scene->names[N_NAMES], i);
        assert_int_equal(probe_int(probe, command, key), strncmp(command, "DEL", 3) == 0);
    }
}

static void begin(struct scene *scene, struct clustered *c)
{
    *scene = (struct scene){.c = c};
    atomic_store(&is_over, false);
    choose_names(scene);
    for_others(scene, "SET %s x");
    for (int i = 0; i < N_NAMES; i++) {
        scene->held[i] = fixture_lock(c->f, cluster_line_client(c, ""), scene->names[i]);
        assert_result(relock_lock(scene->held[i]), RELOCK_OK);
        for (int k = 0; k < N_WAITING; k++) {
            scene->waiting[i][k] = actor_start();
            actor_begin(scene->waiting[i][k], actor_take_turn,
                        fixture_lock(c->f, cluster_line_client(c, ""), scene->names[i]));
            assert_true(cluster_line_wait(c, scene->names[i], k + 1));
        }
    }
    for (int i = 0; i < N_RUNNING; i++) {
        scene->running[i] = actor_start();
        actor_begin(scene->running[i], have_turns,
                    fixture_lock(c->f, cluster_line_client(c, ""), scene->names[N_NAMES]));
    }
}

static void end(struct scene *scene)
{
    for (int i = 0; i < N_NAMES; i++) {
        assert_true(cluster_line_wait(scene->c, scene->names[i], N_WAITING));
        assert_result(relock_unlock(scene->held[i]), RELOCK_OK);
        assert_results(scene->waiting[i], N_WAITING, RELOCK_OK);
    }
    atomic_store(&is_over, true);
    assert_results(scene->running, N_RUNNING, RELOCK_OK);
    actor_end_all();
    for_others(scene, "DEL %s");
}

/* ---- the test ------------------------------------------------------------------------------ */

static void must_succeed(struct command *command)
{
    struct actor *actor = actor_start();
    int code;

    actor_begin(actor, run, command);
    code = actor_result_within(actor, MOVING_MS);
    if (code != 0)
        print_message("%s\n%s\n", command->text, command->output);
    assert_int_equal(code, 0);
}

static void a_reshard_succeeds_while_clients_stand_in_line(void **state)
{
    struct clustered *c = *state;
    const struct cluster_node *nodes = c->cluster->node;
    struct command reshard = {0}, check = {0};
    int port = cluster_port(c->cluster, 0);
    struct scene scene;

    assert_int_equal(cluster_owner(c->cluster, 0), 0);
    (void)snprintf(reshard.text, sizeof(reshard.text),
                   "'%s' --cluster reshard 127.0.0.1:%d --cluster-from %s --cluster-to %s "
                   "--cluster-slots %d --cluster-pipeline 1 --cluster-yes 2>&1",
                   tool, port, nodes[0].id, nodes[1].id, N_SLOTS);
    (void)snprintf(check.text, sizeof(check.text), "'%s' --cluster check 127.0.0.1:%d 2>&1", tool,
                   port);
    begin(&scene, c);
    must_succeed(&reshard);
    cluster_await(c->cluster); /* the tool wants all nodes to agree */
    must_succeed(&check);
    assert_int_equal(cluster_owner(c->cluster, 0), 1);
    end(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLUSTER_TEST(a_reshard_succeeds_while_clients_stand_in_line),
    };

    if (!find_tool() || getenv("RELOCK_TEST_TLS"))
        fixture_skip();
    return CLUSTER_TESTS_RUN(tests);
}
