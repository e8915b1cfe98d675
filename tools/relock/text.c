#include "text.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_PER_BYTE 6 /* a byte becomes \u00NN at most */

/* The length of the character at `text`, 0 if it is not UTF-8. */
static size_t character(const unsigned char *text)
{
    static const struct {
        unsigned char mask, bits;
        unsigned long least;
    } forms[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};

    for (size_t n = 1; n <= 4; n++) {
        unsigned long code = *text & (unsigned char)~forms[n - 1].mask;

        if ((*text & forms[n - 1].mask) != forms[n - 1].bits)
            continue;
        for (size_t i = 1; i < n; i++) {
            if ((text[i] & 0xc0) != 0x80)
                return 0;
            code = code << 6 | (text[i] & 0x3f);
        }
        return code < forms[n - 1].least || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)
                   ? 0
                   : n;
    }
    return 0;
}

/* C0, DEL, and C1, which is C2 80 to C2 9F. */
static bool is_control(const unsigned char *text)
{
    return *text < ' ' || *text == 0x7f || (*text == 0xc2 && text[1] < 0xa0);
}

char *text_escape(const char *text)
{
    char *out = malloc(strlen(text) * MOST_PER_BYTE + 1), *at = out;

    while (out && *text) {
        const unsigned char *bytes = (const unsigned char *)text;
        size_t n = is_control(bytes) ? 0 : character(bytes);

        if (n > 0)
            at = mempcpy(at, text, n);
        else
            at += sprintf(at, "\\x%02x", *bytes);
        text += n > 0 ? n : 1;
    }
    if (out)
        *at = '\0';
    return out;
}

void text_print(FILE *out, const char *text)
{
    char *escaped = text_escape(text);

    (void)fputs(escaped ? escaped : "?", out);
    free(escaped);
}

void text_print_word(FILE *out, const char *word)
{
    if (*word && !word[strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                    "_+-.,:/@%=")]) {
        (void)fputs(word, out);
        return;
    }
    (void)putc('\'', out);
    for (; *word; word++)
        if (*word == '\'')
            (void)fputs("'\\''", out);
        else
            (void)putc(*word, out);
    (void)putc('\'', out);
}

void text_begin(const char *command, const char *about)
{
    flockfile(stderr);
    (void)fprintf(stderr, "relock %s: ", command);
    text_print(stderr, about);
    (void)fputs(": ", stderr);
}

void text_end(void)
{
    (void)fputc('\n', stderr);
    funlockfile(stderr);
}

char *text_json(const char *text)
{
    char *out = malloc(strlen(text) * MOST_PER_BYTE + 3), *at = out;

    if (!out)
        return NULL;
    *at++ = '"';
    while (*text) {
        const unsigned char *bytes = (const unsigned char *)text;
        size_t n = character(bytes);

        if (n == 0)
            at = stpcpy(at, "\xef\xbf\xbd");
        else if (*text == '"' || *text == '\\')
            at += sprintf(at, "\\%c", *text);
        else if (is_control(bytes))
            at += sprintf(at, "\\u%04x", bytes[n - 1]);
        else
            at = mempcpy(at, text, n);
        text += n > 0 ? n : 1;
    }
    (void)stpcpy(at, "\"");
    return out;
}

size_t text_width(const char *text)
{
    size_t width = 0;

    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

char *text_pattern(const char *name)
{
    char *out = malloc(2 * strlen(name) + 1), *at = out;

    for (; out && *name; name++) {
        if (strchr("*?[]\\", *name))
            *at++ = '\\';
        *at++ = *name;
    }
    if (out)
        *at = '\0';
    return out;
}
