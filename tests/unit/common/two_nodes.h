/*
 * Two nodes - a cluster whose two nodes are script servers
 *
 * The fixture of tests of redirections. Errors call the first node "a" and the second one "b". At
 * its end each test waits until the scripts have been played; its loop and the connections on it
 * end before that.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_TWO_NODES_H
#define RELOCK_TEST_TWO_NODES_H

#include "redis/deployment/topology.h"
#include "support/script_server.h"
#include "support/wait.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct two_nodes {
    struct relock_topology topology;
    struct relock_node node[2];
    struct relock_server server[2];
    struct script_server *script[2];
    struct relock_loop *loop; /* made by the test; NULL: none */
    _Atomic(struct relock_node *)
        owner;               /* of all keys: the first at the start, then as MOVED says */
    atomic_bool is_empty[2]; /* the node holds no slots */
    atomic_uint n_redirects;
    atomic_uint n_distrusts;
    atomic_uint n_rechecks;
};

extern struct two_nodes cluster;

int two_nodes_begin(void **state);
int two_nodes_end(void **state);

/* The next connection to this node comes and logs in. */
void connects(unsigned i);

/* A deadline that a passing test does not reach. */
uint64_t soon(void);

#endif
