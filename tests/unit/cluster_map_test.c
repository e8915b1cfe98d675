/* Which node is asked for the map of the slots. */
#include "redis/cluster.h"

#include "base/clock.h"
#include "base/status.h"
#include "places.h"
#include "redis/slot.h"
#include "support/wait.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define NODES 2
#define KEY ((struct relock_text){"orders", 6})

/* Plays a node that gives each question for the map the same answer, and refuses the rest. */
struct fake {
    pthread_t thread;
    int listening;
    int port;
    char map[256];
};

static struct fake fakes[NODES];
static struct relock_log sink = {.level = -1};
static struct relock_server server;
static struct relock_topology *topology;

/* ---- the nodes ----------------------------------------------------------------------------- */

static void answer(const struct fake *fake, int fd, const char *commands)
{
    for (const char *at = strchr(commands, '*'); at; at = strchr(at + 1, '*')) {
        const char *text =
            strncmp(at, "*2\r\n$7\r\nCLUSTER", 15) == 0 ? fake->map : "-ERR unknown command\r\n";

        (void)send(fd, text, strlen(text), MSG_NOSIGNAL);
    }
}

static void *run(void *arg)
{
    struct fake *fake = arg;
    char bytes[1024];
    ssize_t n;
    int fd;

    while ((fd = accept(fake->listening, NULL, NULL)) >= 0) {
        while ((n = recv(fd, bytes, sizeof(bytes) - 1, 0)) > 0) {
            bytes[n] = '\0';
            answer(fake, fd, bytes);
        }
        close(fd);
    }
    return NULL;
}

static void start_node(struct fake *fake)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);

    fake->listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fake->listening, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(fake->listening, 8), 0);
    assert_int_equal(getsockname(fake->listening, (struct sockaddr *)&address, &len), 0);
    fake->port = ntohs(address.sin_port);
}

static void stop_node(struct fake *fake)
{
    shutdown(fake->listening, SHUT_RDWR);
    pthread_join(fake->thread, NULL);
    close(fake->listening);
}

static int add_range(char *to, int first, int last, int port)
{
    return sprintf(to, "*3\r\n:%d\r\n:%d\r\n*2\r\n$9\r\n127.0.0.1\r\n:%d\r\n", first, last, port);
}

/* The first node is cut off from the others, and does not know that a replica, the second node, has
 * taken the place of a master that is down. */
static int dead_port(void)
{
    int port = 0;

    sscanf(places_text(places_refuse()), "127.0.0.1 %d", &port);
    return port;
}

static void draw_maps(int dead)
{
    char *map = fakes[0].map;

    map += sprintf(map, "*3\r\n");
    map += add_range(map, 10, 19, fakes[1].port);
    map += add_range(map, 0, 9, fakes[0].port);
    (void)add_range(map, 20, RELOCK_SLOTS - 1, dead);
    map = fakes[1].map;
    map += sprintf(map, "*2\r\n");
    map += add_range(map, 0, 9, fakes[0].port);
    (void)add_range(map, 10, RELOCK_SLOTS - 1, fakes[1].port);
}

/* ---- around the tests ---------------------------------------------------------------------- */

static int begin(void **state)
{
    struct relock_options options = {.connect_timeout_ms = slow_ms(SOON_MS),
                                     .command_timeout_ms = slow_ms(SOON_MS)};
    char why[RELOCK_WHY_MAX], url[64];

    (void)state;
    for (int i = 0; i < NODES; i++)
        start_node(&fakes[i]);
    draw_maps(dead_port());
    for (int i = 0; i < NODES; i++)
        assert_int_equal(pthread_create(&fakes[i].thread, NULL, run, &fakes[i]), 0);
    snprintf(url, sizeof(url), "redis+cluster://127.0.0.1:%d", fakes[0].port);
    options.url = url;
    assert_int_equal(relock_server_init(&server, &options, "id", &sink), RELOCK_OK);
    assert_int_equal(relock_cluster_new(&server, 1, &topology), RELOCK_OK);
    return relock_topology_connect(topology, relock_clock_in(slow_ms(SOON_MS)), why);
}

static int end(void **state)
{
    (void)state;
    relock_topology_stop(topology);
    topology = relock_topology_free(topology);
    relock_server_deinit(&server);
    for (int i = 0; i < NODES; i++)
        stop_node(&fakes[i]);
    places_end();
    return 0;
}

/* ---- tests --------------------------------------------------------------------------------- */

/* As callers do: each finds the node of the key, and cannot reach it if it is the dead one. */
static bool is_at_the_new_master(void *arg)
{
    struct relock_node *node = relock_topology_find(topology, KEY);

    (void)arg;
    if (node->server->url.port == fakes[1].port)
        return true;
    relock_topology_distrust(topology, node);
    return false;
}

static void a_node_with_an_old_map_is_not_asked_for_ever(void **state)
{
    (void)state;

    assert_true(relock_slot_of(KEY) >= 20);
    assert_false(is_at_the_new_master(NULL));
    assert_true(wait_until(is_at_the_new_master, NULL, SOON_MS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_node_with_an_old_map_is_not_asked_for_ever, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
