#include "support/seen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct seen_line {
    unsigned relay;
    char *words;
};

void seen_clear(struct seen *seen)
{
    while (seen->n > 0)
        free(seen->lines[--seen->n].words);
}

void seen_deinit(struct seen *seen)
{
    seen_clear(seen);
    free(seen->lines);
    *seen = (struct seen){0};
}

void seen_name_script(struct seen *seen, const char *name, const char *sha1)
{
    struct seen_script *script = &seen->scripts[seen->n_scripts++];

    if (seen->n_scripts > SEEN_MAX_SCRIPTS)
        abort();
    snprintf(script->name, sizeof(script->name), "%s", name);
    snprintf(script->sha1, sizeof(script->sha1), "%s", sha1);
}

/* A renewal with a lease of -1 only looks. */
static void name_check(char *words)
{
    char *renew = strstr(words, "renew ");

    if (renew && seen_is_like(words, "* 1 * -1"))
        memcpy(renew, "check", strlen("check"));
}

void seen_translate(const struct seen *seen, char words[FRAME_WORDS_MAX])
{
    for (size_t i = 0; i < seen->n_scripts; i++) {
        const struct seen_script *script = &seen->scripts[i];
        size_t len = strlen(script->name);
        char call[64];
        int n = snprintf(call, sizeof(call), "EVALSHA %s", script->sha1);

        if (!seen_is_like(words, call))
            continue;
        memmove(words + len, words + n, strlen(words + n) + 1); /* the name is shorter */
        memcpy(words, script->name, len);
        name_check(words);
        return;
    }
}

static bool next_word(const char **text, const char **word, size_t *len)
{
    *text += strspn(*text, " ");
    *word = *text;
    *len = strcspn(*text, " ");
    *text += *len;
    return *len > 0;
}

bool seen_is_like(const char *words, const char *pattern)
{
    const char *wanted, *word;
    size_t n_wanted, n;

    while (next_word(&pattern, &wanted, &n_wanted)) {
        if (!next_word(&words, &word, &n))
            return false;
        if (n_wanted == 1 && *wanted == '*')
            continue;
        if (n != n_wanted || strncasecmp(word, wanted, n) != 0)
            return false;
    }
    return true;
}

void seen_add(struct seen *seen, unsigned relay, const char *words)
{
    struct seen_line line = {.relay = relay, .words = strdup(words)};

    if (seen->n == seen->size) {
        seen->size = 2 * seen->size + 64;
        seen->lines = realloc(seen->lines, seen->size * sizeof(*seen->lines));
    }
    if (!seen->lines || !line.words)
        abort();
    seen->lines[seen->n++] = line;
}

size_t seen_count(const struct seen *seen, const char *pattern)
{
    size_t n = 0;

    for (size_t i = 0; i < seen->n; i++)
        n += seen_is_like(seen->lines[i].words, pattern);
    return n;
}

size_t seen_next(const struct seen *seen, size_t place, const char *pattern)
{
    for (size_t i = place; i < seen->n; i++)
        if (seen_is_like(seen->lines[i].words, pattern))
            return i + 1;
    return 0;
}

bool seen_on(const struct seen *seen, unsigned relay, const char *pattern)
{
    for (size_t i = 0; i < seen->n; i++)
        if (seen->lines[i].relay == relay && seen_is_like(seen->lines[i].words, pattern))
            return true;
    return false;
}

void seen_print(const struct seen *seen)
{
    for (size_t i = 0; i < seen->n; i++)
        fprintf(stderr, "  %u: %.100s\n", seen->lines[i].relay, seen->lines[i].words);
}
