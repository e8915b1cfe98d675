/*
 * Fake nodes - two nodes of a cluster, each with a map of the slots, and the topology of a client
 *
 * Threads: the main one, unless something says otherwise.
 */
#ifndef RELOCK_TEST_FAKE_NODES_H
#define RELOCK_TEST_FAKE_NODES_H

#include "redis/deployment/slot_map.h"
#include "redis/deployment/topology.h"
#include "support/late.h"
#include "support/log.h"
#include "unit/common/fake_server.h"
#include "unit/common/places.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define NODES 2
#define KEY ((struct relock_text){"orders", 6})

enum manner {
    ANSWERS, /* each question for the map, and refuses other commands */
    HANGS,
    HANGS_UP,
};

/* Plays a node. */
struct fake {
    struct fake_server server;
    atomic_int manner;
    atomic_uint n_visits;
    atomic_uint n_questions; /* for the map */
    char map[1024];
};

extern struct fake fakes[NODES];
extern pthread_mutex_t drawing; /* of the maps, while nodes run */
extern struct log *lines;
extern struct relock_topology *topology;

int fake_nodes_begin(void **state);
int fake_nodes_end(void **state);

/* Each adds a range of slots to a map, and returns its length. `host`: "" for that of the node
 * itself. */
int add_range_at(char *to, int first, int last, const char *host, int port);
int add_range(char *to, int first, int last, int port);

/* Runs the nodes, and connects by the url of the first one. */
void connect_as(const char *host, uint64_t connect_ms);

/* The node answers "MOVED" or "ASK", and that address. */
struct relock_node *redirect(struct relock_node *from, const char *word, const char *host, int port,
                             bool *asks);

/* The client wants the map at once. */
void want_map(struct relock_node *node);

#define NODES_TEST(function) \
    cmocka_unit_test_setup_teardown(function, fake_nodes_begin, fake_nodes_end)

#endif
