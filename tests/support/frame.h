/*
 * Frame - the pieces in which a Redis connection talks
 *
 * Only as much of RESP as a proxy between client and server must know: where a frame ends, the
 * words of a command, and the kind of a reply.
 *
 * Threads: any.
 */
#ifndef RELOCK_TEST_FRAME_H
#define RELOCK_TEST_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define FRAME_WORDS_MAX 512

/* The length of the first frame; 0 if it is not all there, -1 if it is none. */
ssize_t frame_length(const char *data, size_t size);

/* The words of a command, with a blank between, cut when long. Unprintable bytes become '?'. */
void frame_words(const char *frame, size_t size, char words[FRAME_WORDS_MAX]);

/* Whether a reply is a published message, which answers nothing. */
bool frame_is_message(const char *frame, size_t size);

/* A reply that is an error, in words that begin with "-" and its code. Servers before 7.0 put
 * others before it when it came out of a script; those are left out. */
void frame_error(const char *frame, size_t size, char words[FRAME_WORDS_MAX]);

#endif
