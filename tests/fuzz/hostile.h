/*
 * Hostile - a server that says what the fuzzer thinks of
 *
 * It has no thread. The linker leads the library's system calls here (--wrap, see meson.build):
 * connect(2) gives it one end of a pair of sockets, recv(2) brings the next bytes of the play, and
 * time passes only while the library waits. So thousands of plays fit into a second, and the same
 * bytes do the same again.
 *
 * A play is scenes, each of them the byte 1, a letter, and what the server says in it:
 *
 *     a   the next connection is accepted
 *     d   the same, but the server is deaf: sending to it fails
 *     r   the next connection is refused
 *     m   more is said on it, when all before has been read
 *     e   the same, and then the server says no more
 *     x   the same, and then it is deaf, too
 *     f   the same bytes over and over, more than a reply may be long
 *
 * Other letters are what the program does before the server says something: each fuzzer has its
 * own. While no scene brings anything, the server is silent; no connection is accepted any more.
 */
#ifndef RELOCK_TEST_HOSTILE_H
#define RELOCK_TEST_HOSTILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ev_loop;

/* The library reads `piece` bytes at a time at most. One connection at a time may be open. */
void hostile_begin(const uint8_t *play, size_t size, size_t piece);

/* All connections must have been closed. */
void hostile_end(void);

/* Lets time pass in which the program does nothing, and the server goes on. */
void hostile_idle(uint64_t ms);

/*
 * Plays to the end on the loop of a connection, which has been opened. Before each scene all is
 * read and written. A scene of a connection begins when the library next tries to make one: time
 * passes until its timer fires, and so it does for the letter `t`. With any other letter `act` is
 * called first.
 */
void hostile_perform(struct ev_loop *ev, void (*act)(char letter));

#endif
