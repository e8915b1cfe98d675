/*
 * Hostile - a server that sends what the fuzzer generates
 *
 * It has no thread. The linker redirects the library's system calls to it (--wrap, see
 * meson.build): connect(2) returns one end of a socket pair, recv(2) returns the next bytes of the
 * play, and time passes only while the library waits. So thousands of plays fit into a second, and
 * the same bytes have the same effect.
 *
 * A play consists of scenes. Each is the byte 1, a letter, and the bytes that the server sends:
 *
 *     a   the next connection is accepted
 *     d   the same, but the server is deaf: sending to it fails
 *     r   the next connection is refused
 *     m   more is said on it, when all before has been read
 *     e   the same, and then the server says no more
 *     x   the same, and then it is deaf, too
 *     f   the same bytes over and over, more than a reply may be long
 *
 * Other letters are actions of the program before the server sends: each fuzzer has its own. After
 * the last scene the server is silent and accepts no connection.
 */
#ifndef RELOCK_TEST_HOSTILE_H
#define RELOCK_TEST_HOSTILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ev_loop;

/* The library reads at most `piece` bytes at a time. Only one connection may be open at a time. */
void hostile_begin(const uint8_t *play, size_t size, size_t piece);

/* All connections must have been closed. */
void hostile_end(void);

/* Lets time pass while the program does nothing and the server continues. */
void hostile_idle(uint64_t ms);

/*
 * Plays to the end on the loop of a connection, which has been opened. Before each scene all is
 * read and written. A scene of a connection begins when the library next tries to make one: time
 * passes until its timer fires, and so it does for the letter `t`. With any other letter `act` is
 * called first.
 */
void hostile_perform(struct ev_loop *ev, void (*act)(char letter));

#endif
