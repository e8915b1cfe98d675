#include "redis/server/command.h"

#include "base/decimal.h"

#include <stdlib.h>

#define KEEP_BYTES 8192 /* a script of 64 locks, with most names */

#define END "\r\n"
#define HEADER_MAX (1 + RELOCK_DECIMAL_MAX + sizeof(END))

void relock_buffer_lend(struct relock_buffer *buffer, char *room, size_t size)
{
    *buffer = (struct relock_buffer){.size = size, .lent = true};
    buffer->data = room;
}

void relock_buffer_deinit(struct relock_buffer *buffer)
{
    if (!buffer->lent)
        free(buffer->data);
    *buffer = (struct relock_buffer){0};
}

void relock_buffer_clear(struct relock_buffer *buffer)
{
    if (buffer->size > KEEP_BYTES)
        relock_buffer_deinit(buffer);
    buffer->len = 0;
    buffer->failed = false;
}

void relock_buffer_take_back(struct relock_buffer *buffer, size_t len)
{
    buffer->len = len;
    buffer->failed = false;
}

static bool grow(struct relock_buffer *buffer, size_t len)
{
    size_t size = buffer->size > 0 ? buffer->size : 512;
    char *data;

    while (size - buffer->len < len)
        size *= 2;
    data = realloc(buffer->lent ? NULL : buffer->data, size);
    if (!data) {
        buffer->failed = true;
        return false;
    }
    if (buffer->lent)
        memcpy(data, buffer->data, buffer->len);
    buffer->data = data;
    buffer->size = size;
    buffer->lent = false;
    return true;
}

static inline bool make_room(struct relock_buffer *buffer, size_t len)
{
    if (buffer->failed)
        return false;
    return len <= buffer->size - buffer->len || grow(buffer, len);
}

void relock_buffer_append(struct relock_buffer *buffer, const char *data, size_t len)
{
    if (len == 0 || !make_room(buffer, len))
        return;
    memcpy(buffer->data + buffer->len, data, len);
    buffer->len += len;
}

static void append_end(struct relock_buffer *buffer)
{
    memcpy(buffer->data + buffer->len, END, strlen(END));
    buffer->len += strlen(END);
}

/* Appends the `mark` and a number: the header of an array or a string. The caller has made room. */
static void append_header(struct relock_buffer *buffer, char mark, size_t n)
{
    buffer->data[buffer->len++] = mark;
    buffer->len += relock_decimal(buffer->data + buffer->len, n);
    append_end(buffer);
}

void relock_command_begin(struct relock_buffer *buffer, size_t n_args)
{
    if (make_room(buffer, HEADER_MAX))
        append_header(buffer, '*', n_args);
}

void relock_command_arg(struct relock_buffer *buffer, const char *data, size_t len)
{
    if (!make_room(buffer, HEADER_MAX + len + strlen(END)))
        return;
    append_header(buffer, '$', len);
    if (len > 0)
        memcpy(buffer->data + buffer->len, data, len);
    buffer->len += len;
    append_end(buffer);
}

void relock_command_word(struct relock_buffer *buffer, const char *word)
{
    relock_command_arg(buffer, word, strlen(word));
}

void relock_command_number(struct relock_buffer *buffer, uint64_t number)
{
    char text[RELOCK_DECIMAL_MAX];

    relock_command_arg(buffer, text, relock_decimal(text, number));
}

void relock_command_list(struct relock_buffer *buffer, const char *const words[])
{
    size_t n = 0;

    while (words[n])
        n++;
    relock_command_begin(buffer, n);
    for (; *words; words++)
        relock_command_word(buffer, *words);
}
