/*
 * Talk - lanes to a script server
 *
 * The fixture of tests of lanes and calls. After each, all commands of the script must have come,
 * and no descriptor and no thread may be left.
 */
#ifndef RELOCK_TEST_TALK_H
#define RELOCK_TEST_TALK_H

#include "redis/call.h"
#include "redis/lane.h"
#include "redis/lanes.h"
#include "support/script_server.h"
#include "support/wait.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

extern struct script_server *script;
extern struct relock_server server;
extern struct relock_lanes *lanes; /* two */

int talk_begin(void **state);
int talk_end(void **state);

/* With other options than the url of the script server and times that do not run out. */
void talk_as(const struct relock_options *options);

/* Closes all connections; no lane may be taken. */
void talk_hang_up(void);

/* The server expects the command that a call is. */
void talk_expect(const struct relock_call *call);

/* Has the server answer it, on a connection that it calls `id`. Over that, BRIEF_MS are enough to
 * send the next one. */
void talk_connect(struct relock_call *call, unsigned id);

#define BRIEF_MS 1500

/* A deadline of the library, so many milliseconds from now, and one that should not come. */
uint64_t in_ms(uint64_t ms);
uint64_t soon(void);

/* Whether the deadline has passed, but not for long. */
bool has_just_passed(uint64_t deadline_ms);

#define TALK_TEST(function) cmocka_unit_test_setup_teardown(function, talk_begin, talk_end)

#endif
