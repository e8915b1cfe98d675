#include "fake_nodes.h"

#include "base/clock.h"
#include "base/status.h"
#include "redis/deployment/topology.h"
#include "support/wait.h"

#include <stdio.h>
#include <string.h>

struct fake fakes[NODES];
struct log *lines;
static struct relock_log sink = {.level = RELOCK_LOG_INFO, .sink = log_write};
static struct relock_server server;
struct relock_topology *topology;

pthread_mutex_t drawing = PTHREAD_MUTEX_INITIALIZER; /* of the maps, while nodes run */

static void answer(struct fake *fake, int fd, const char *commands)
{
    for (const char *at = strchr(commands, '*'); at; at = strchr(at + 1, '*')) {
        bool is_question = strncmp(at, "*2\r\n$7\r\nCLUSTER", 15) == 0;
        const char *text = is_question ? fake->map : "-ERR unknown command\r\n";

        atomic_fetch_add(&fake->n_questions, is_question);
        pthread_mutex_lock(&drawing);
        fake_server_say(fd, text);
        pthread_mutex_unlock(&drawing);
    }
}

static void serve(struct fake_server *self, int fd)
{
    struct fake *fake = (struct fake *)self;
    char text[1024];

    atomic_fetch_add(&fake->n_visits, 1);
    while (atomic_load(&fake->manner) != HANGS_UP && fake_server_hear(fd, text, sizeof(text)))
        if (atomic_load(&fake->manner) == ANSWERS)
            answer(fake, fd, text);
}

static void start_node(struct fake *fake)
{
    atomic_store(&fake->manner, ANSWERS);
    atomic_store(&fake->n_visits, 0);
    atomic_store(&fake->n_questions, 0);
    assert_true(fake_server_listen(&fake->server));
}

/* `host`: "" for that of the node itself. */
int add_range_at(char *to, int first, int last, const char *host, int port)
{
    return sprintf(to, "*3\r\n:%d\r\n:%d\r\n*2\r\n$%zu\r\n%s\r\n:%d\r\n", first, last, strlen(host),
                   host, port);
}

int add_range(char *to, int first, int last, int port)
{
    return add_range_at(to, first, last, "127.0.0.1", port);
}

/* ---- around the tests ---------------------------------------------------------------------- */

int fake_nodes_begin(void **state)
{
    (void)state;
    lines = log_new();
    sink.arg = lines;
    for (int i = 0; i < NODES; i++)
        start_node(&fakes[i]);
    return 0;
}

static void run_nodes(void)
{
    for (int i = 0; i < NODES; i++)
        assert_true(fake_server_run(&fakes[i].server, serve));
}

/* By the url of the first node. */
void connect_as(const char *host, uint64_t connect_ms)
{
    struct relock_options options = {.connect_timeout_ms = connect_ms,
                                     .command_timeout_ms = slow_ms(SOON_MS)};
    char why[RELOCK_WHY_MAX], url[64];

    run_nodes();
    snprintf(url, sizeof(url), "redis+cluster://%s:%d", host, fakes[0].server.port);
    options.url = url;
    assert_int_equal(relock_server_init(&server, &options, "id", &sink), RELOCK_OK);
    assert_int_equal(relock_cluster_new(&server, 1, &topology), RELOCK_OK);
    assert_int_equal(relock_topology_connect(topology, relock_clock_in(slow_ms(SOON_MS)), why),
                     RELOCK_OK);
}

int fake_nodes_end(void **state)
{
    (void)state;
    relock_topology_stop(topology);
    topology = relock_topology_free(topology);
    relock_server_deinit(&server);
    for (int i = 0; i < NODES; i++)
        fake_server_stop(&fakes[i].server);
    places_end();
    log_free(lines);
    return 0;
}

struct relock_node *redirect(struct relock_node *from, const char *word, const char *host, int port,
                             bool *asks)
{
    unsigned n_redirects = 0;
    char error[64];

    snprintf(error, sizeof(error), "%s %u %s:%d", word, relock_slot_of(KEY), host, port);
    return relock_topology_redirect(topology, from, error, NULL, &n_redirects, asks);
}

void want_map(struct relock_node *node)
{
    unsigned n_redirects = 0;
    bool asks;

    assert_null(relock_topology_redirect(topology, node, "MOVED", NULL, &n_redirects, &asks));
}
