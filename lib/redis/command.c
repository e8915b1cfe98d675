#include "redis/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEEP_BYTES 65536

void relock_buffer_deinit(struct relock_buffer *buffer)
{
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
    data = realloc(buffer->data, size);
    if (!data) {
        buffer->failed = true;
        return false;
    }
    buffer->data = data;
    buffer->size = size;
    return true;
}

/* Writes the `mark` and a length, as both headers of RESP have it. */
static void append_header(struct relock_buffer *buffer, char mark, size_t n)
{
    char digits[24];
    size_t at = sizeof(digits);

    digits[--at] = '\n';
    digits[--at] = '\r';
    do {
        digits[--at] = (char)('0' + (n % 10));
        n /= 10;
    } while (n > 0);
    digits[--at] = mark;
    if (!make_room(buffer, sizeof(digits) - at))
        return;
    memcpy(buffer->data + buffer->len, digits + at, sizeof(digits) - at);
    buffer->len += sizeof(digits) - at;
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
    char text[24];
    int len = snprintf(text, sizeof(text), "%llu", (unsigned long long)number);

    relock_command_arg(buffer, text, (size_t)len);
}
