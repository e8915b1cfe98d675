#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fuzz_found(const char *what, const char *file, int line)
{
    fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
    abort();
}

static bool is_of_login(const char *text)
{
    return strstr(text, ": AUTH: ") || strstr(text, ": HELLO: ") ||
           strstr(text, ": CLIENT SETNAME: ") || strstr(text, ": SELECT: ") ||
           strstr(text, ": INFO: ") || strstr(text, ": CLIENT INFO: ");
}

static bool can_say(const struct fuzz_play *play, char c)
{
    return memchr(play->data, c, play->size) != NULL;
}

void fuzz_check_text(const struct fuzz_play *play, const char *text)
{
    if (!play->has_password || !strstr(text, FUZZ_PASSWORD))
        return;
    FUZZ_CHECK(can_say(play, FUZZ_PASSWORD_BYTE));
    FUZZ_CHECK(can_say(play, ':') || !is_of_login(text));
}

void fuzz_log(int level, const char *line, void *play)
{
    (void)level;
    for (const char *at = line; *at; at++)
        FUZZ_CHECK((unsigned char)*at >= ' ' && *at != 0x7f); /* no line break, no escape */
    fuzz_check_text(play, line);
}
