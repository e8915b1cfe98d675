#include "redis/command.h"

#include "base/decimal.h"

#include <stdlib.h>
#include <string.h>

#define KEEP_BYTES 65536

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

static bool make_room(struct relock_buffer *buffer, size_t len)
{
    size_t size = buffer->size > 0 ? buffer->size : 512;
    char *data;

    if (buffer->failed)
        return false;
    if (len <= buffer->size - buffer->len)
        return true;
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

void relock_buffer_append(struct relock_buffer *buffer, const char *data, size_t len)
{
    if (len == 0 || !make_room(buffer, len))
        return;
    memcpy(buffer->data + buffer->len, data, len);
    buffer->len += len;
}

/* Writes the `mark` and a length, as both headers of RESP have it. */
static void append_header(struct relock_buffer *buffer, char mark, size_t n)
{
    char header[1 + RELOCK_DECIMAL_MAX + 1];
    size_t len = 1 + relock_decimal(header + 1, n);

    header[0] = mark;
    header[len++] = '\r';
    header[len++] = '\n';
    relock_buffer_append(buffer, header, len);
}

void relock_command_begin(struct relock_buffer *buffer, size_t n_args)
{
    append_header(buffer, '*', n_args);
}

void relock_command_arg(struct relock_buffer *buffer, const char *data, size_t len)
{
    append_header(buffer, '$', len);
    if (!make_room(buffer, len + 2))
        return;
    if (len > 0)
        memcpy(buffer->data + buffer->len, data, len);
    memcpy(buffer->data + buffer->len + len, "\r\n", 2);
    buffer->len += len + 2;
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
