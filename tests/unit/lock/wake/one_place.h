/*
 * One place - an offline client whose waiter stands in the line of its lock
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_ONE_PLACE_H
#define RELOCK_TEST_ONE_PLACE_H

#include "lock/wake/outbox.h"
#include "lock/wake/wake.h"
#include "unit/common/offline.h"

#define ID "9f2c1c5e-0a53-4b6c-8f2e-5a1d3c7b9e10" /* of the client */

extern struct relock_waiter waiter;

int one_place_begin(void **state);
int one_place_end(void **state);

/* The next timer fires, if there is one. */
bool fire_next(void);
bool has_timer(void);

enum relock_line_state is_now(void);
struct relock_line_view view(void);

/* Redis refuses an attempt, and says this place. */
void be_refused_at(uint64_t place);

/* A message comes to the inbox. */
void hear(const char *verb);

/* The first command to leave a line that is to be sent, or NULL. */
const struct relock_outbox_entry *posted(void);

#define LINE_TEST(function) \
    cmocka_unit_test_setup_teardown(function, one_place_begin, one_place_end)

#endif
