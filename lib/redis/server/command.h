/*
 * Command - writes commands for Redis into a buffer
 *
 * A buffer that is reused stops allocating once it has grown. It remembers that memory ran out:
 * append everything, then check `failed` once.
 *
 * Threads: the owner of the buffer.
 */
#ifndef RELOCK_COMMAND_H
#define RELOCK_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct relock_buffer {
    char *data;
    size_t len;
    size_t size;
    bool failed; /* out of memory: something that was appended is missing */
    bool lent;   /* `data` belongs to the caller of relock_buffer_lend */
};

/* Borrowed text; need not end with a NUL. */
struct relock_text {
    const char *data;
    size_t len;
};

static inline struct relock_text relock_text_of(const char *word)
{
    return (struct relock_text){word, strlen(word)};
}

/* Whether `text` is that word. */
static inline bool relock_text_is(struct relock_text text, const char *word)
{
    return text.len == strlen(word) && memcmp(text.data, word, text.len) == 0;
}

/* Starts a buffer in that room. It allocates when the room does not suffice. */
void relock_buffer_lend(struct relock_buffer *buffer, char *room, size_t size);
void relock_buffer_deinit(struct relock_buffer *buffer);

/* Empties the buffer and keeps its memory, unless that has become large. */
void relock_buffer_clear(struct relock_buffer *buffer);

/* Removes the bytes appended since the buffer had that length, and a lack of memory since then. */
void relock_buffer_take_back(struct relock_buffer *buffer, size_t len);

void relock_buffer_append(struct relock_buffer *buffer, const char *data, size_t len);

/* Starts a command of `n_args` arguments, its name included; that many must follow. */
void relock_command_begin(struct relock_buffer *buffer, size_t n_args);
void relock_command_arg(struct relock_buffer *buffer, const char *data, size_t len);
void relock_command_word(struct relock_buffer *buffer, const char *word);
void relock_command_number(struct relock_buffer *buffer, uint64_t number);

/* Appends a command of these words. */
#define relock_command_words(buffer, ...) \
    relock_command_list((buffer), (const char *const[]){__VA_ARGS__, NULL})
void relock_command_list(struct relock_buffer *buffer, const char *const words[]);

#endif
