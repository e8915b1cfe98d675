/*
 * Two readers - a connection that the I/O thread and a thread that waits both read
 *
 * The fixture of tests of redis/direct. The script server is that of talk.h. The I/O thread can be
 * stopped in its turn: then what is read, another thread has read.
 */
#ifndef RELOCK_TEST_TWO_READERS_H
#define RELOCK_TEST_TWO_READERS_H

#include "base/thread.h"
#include "redis/io/io.h"
#include "redis/io/private.h"
#include "support/actor.h"
#include "unit/common/talk.h"

#include <pthread.h>
#include <stdatomic.h>

#define SUBSCRIBED(name) "*3\r\n$9\r\nsubscribe\r\n$1\r\n" name "\r\n:1\r\n"
#define MESSAGE(name) "*3\r\n$7\r\nmessage\r\n$1\r\n" name "\r\n$1\r\n0\r\n"

extern _Atomic(struct relock_pubsub *) pubsub;
extern struct relock_reading *reading;
extern struct relock_gate heard;  /* a message came over channel a */
extern struct relock_gate events; /* a subscription was acknowledged, or a connection ended */
extern pthread_t reader;          /* has read it */

extern struct turns {
    struct relock_gate done;
    struct relock_gate goes_on;
    atomic_bool stops; /* a turn is to stop */
    atomic_bool stops_when_left;
    atomic_bool is_needed; /* the I/O thread needs the messages itself */
    atomic_bool logs_in_again;
    atomic_bool subscribes; /* to channel b */
} turns;

/* Channel a is subscribed at the start. */
int two_readers_begin(void **state);
int two_readers_end(void **state);

/* Of a subscription; `arg` is the gate that a message opens. */
void on_channel(void *arg, enum relock_channel_event event, const char *text, size_t len);

void stop_io(void);
void let_io_go_on(void);

/* Returns after a turn that saw the order. */
void have_a_turn(atomic_bool *order);

/* As a thread that polls, and does not read what comes. */
void pretend_to_poll(bool polls);

/* For wait_until(). */
bool is_left(void *arg);
bool is_polled(void *arg);
bool is_not_polled(void *arg);

/* A message that the I/O thread has left in the socket, for a thread that polls. It stands still
 * then, because it leaves it for a while only. */
void leave_a_message(void);

/* The other thread polled for so long that the I/O thread watches only when it is woken. */
void leave_the_socket(void);

/* A step: returns whether the gate was opened before the test gave up. */
int wait_for(void *arg);

/* Another thread waits for this gate. */
struct actor *begin_to_wait(struct relock_gate *gate);

/* Another thread waits for a gate of its own, until that is opened. The second function returns
 * when it polls. */
struct actor *begin_to_wait_alone(void);
struct actor *begin_to_poll(void);
void end_waiting(struct actor *actor);

void nobody_waits(void);

#define READERS_TEST(function) \
    cmocka_unit_test_setup_teardown(function, two_readers_begin, two_readers_end)

#endif
