#include "support/frame.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 8

/* The length of the line that begins there, its end included; 0 if it is not all there. */
static size_t line_length(const char *data, size_t size)
{
    const char *end = memchr(data, '\n', size);

    return end ? (size_t)(end - data) + 1 : 0;
}

static ssize_t length_at(const char *data, size_t size, unsigned depth);

static ssize_t array_length(const char *data, size_t size, size_t at, long n, unsigned depth)
{
    for (long i = 0; i < n; i++) {
        ssize_t length = length_at(data + at, size - at, depth + 1);

        if (length <= 0)
            return length;
        at += (size_t)length;
    }
    return (ssize_t)at;
}

static ssize_t length_at(const char *data, size_t size, unsigned depth)
{
    size_t line = size > 0 ? line_length(data, size) : 0;
    long n;

    if (line == 0)
        return 0;
    if (depth > MAX_DEPTH || !strchr("+-:$*", data[0]))
        return -1;
    if (strchr("+-:", data[0]))
        return (ssize_t)line;

    n = strtol(data + 1, NULL, 10);
    if (data[0] == '*')
        return array_length(data, size, line, n, depth);
    if (n < 0)
        return (ssize_t)line;
    return size - line >= (size_t)n + 2 ? (ssize_t)(line + (size_t)n + 2) : 0;
}

ssize_t frame_length(const char *data, size_t size)
{
    return length_at(data, size, 0);
}

/* The next bulk string of a frame that is all there; *at goes behind it. */
static bool next_word(const char *frame, size_t size, size_t *at, const char **word, size_t *len)
{
    size_t line;

    if (*at >= size || frame[*at] != '$')
        return false;
    line = line_length(frame + *at, size - *at);
    *len = strtoul(frame + *at + 1, NULL, 10);
    *word = frame + *at + line;
    *at += line + *len + 2;
    return *at <= size;
}

void frame_words(const char *frame, size_t size, char words[FRAME_WORDS_MAX])
{
    size_t at = line_length(frame, size);
    size_t n = 0;
    const char *word;
    size_t len;

    while (next_word(frame, size, &at, &word, &len)) {
        if (n > 0 && n < FRAME_WORDS_MAX - 1)
            words[n++] = ' ';
        for (size_t i = 0; i < len && n < FRAME_WORDS_MAX - 1; i++)
            words[n++] = isprint((unsigned char)word[i]) ? word[i] : '?';
    }
    words[n] = '\0';
}

bool frame_is_message(const char *frame, size_t size)
{
    size_t at = line_length(frame, size);
    const char *word;
    size_t len;

    return frame[0] == '*' && next_word(frame, size, &at, &word, &len) &&
           ((len == 7 && memcmp(word, "message", 7) == 0) ||
            (len == 8 && memcmp(word, "smessage", 8) == 0));
}

void frame_error(const char *frame, size_t size, char words[FRAME_WORDS_MAX])
{
    size_t n = line_length(frame, size);
    char *inner;

    snprintf(words, FRAME_WORDS_MAX, "%.*s", (int)n, frame);
    words[strcspn(words, "\r\n")] = '\0';
    inner = strstr(words, " -");
    if (inner && isupper((unsigned char)inner[2]))
        memmove(words, inner + 1, strlen(inner));
}
