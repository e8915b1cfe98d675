/*
 * Command - requests to Redis, as the bytes that go out
 *
 * A buffer that is kept allocates nothing once it has grown. Running out of memory is remembered:
 * append all, then ask once whether it worked.
 *
 * Threads: whoever owns the buffer.
 */
#ifndef RELOCK_COMMAND_H
#define RELOCK_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct relock_buffer {
    char *data;
    size_t len;
    size_t size;
    bool failed; /* out of memory: what was appended since is not all there */
    bool lent;   /* `data` is somebody else's */
};

/* A piece of text that is somebody else's. */
struct relock_text {
    const char *data;
    size_t len;
};

/* Begins in that room; takes memory of its own when it does not suffice. */
void relock_buffer_lend(struct relock_buffer *buffer, char *room, size_t size);
void relock_buffer_deinit(struct relock_buffer *buffer);

/* Empties it and keeps its memory, unless that has become large. */
void relock_buffer_clear(struct relock_buffer *buffer);

void relock_buffer_append(struct relock_buffer *buffer, const char *data, size_t len);

/* Begins a command of `n_args` arguments, its name included; that many must follow. */
void relock_command_begin(struct relock_buffer *buffer, size_t n_args);
void relock_command_arg(struct relock_buffer *buffer, const char *data, size_t len);
void relock_command_word(struct relock_buffer *buffer, const char *word);
void relock_command_number(struct relock_buffer *buffer, uint64_t number);

#endif
