/*
 * Talk - lanes that are connected to a script server
 *
 * The fixture of tests of lanes and calls. At its end each test waits until the script has been
 * played; then no descriptor and no thread may be left.
 */
#ifndef RELOCK_TEST_TALK_H
#define RELOCK_TEST_TALK_H

#include "redis/deployment/topology.h"
#include "redis/lane/call.h"
#include "redis/lane/lane.h"
#include "redis/lane/lanes.h"
#include "support/late.h"
#include "support/script_server.h"
#include "support/wait.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

extern struct script_server *script;
extern struct relock_server server;
extern struct relock_topology *topology; /* this server */
extern struct relock_lanes *lanes;       /* its two lanes */

int talk_begin(void **state);
int talk_end(void **state);

/* Connects with these options. By default: the url of the script server, and long timeouts. */
void talk_as(const struct relock_options *options);

/* Closes all connections; no lane may be in use. */
void talk_hang_up(void);

/* The server expects the commands with which a connection logs in, after any AUTH. */
void talk_expect_login(void);

/* The server expects the command of a call. */
void talk_expect(const struct relock_call *call);

/* Runs the call once over a new connection, which the server calls `id`. After that, BRIEF_MS are
 * enough to send the next call. */
void talk_connect(struct relock_call *call, unsigned id);

#define BRIEF_MS 1500

/* The deadline `ms` milliseconds from now, and one that a passing test does not reach. */
uint64_t in_ms(uint64_t ms);
uint64_t soon(void);

/* Whether the deadline passed a short while ago. */
bool has_just_passed(uint64_t deadline_ms);

#define TALK_TEST(function) cmocka_unit_test_setup_teardown(function, talk_begin, talk_end)

#endif
