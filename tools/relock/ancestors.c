#include "ancestors.h"

#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLE "RELOCK_HOLDS"
#define DEFAULT_URL "redis://127.0.0.1:6379"

const char *ancestors_list(void)
{
    const char *list = getenv(VARIABLE);

    return list && *list ? list : NULL;
}

/* The id of a plain lock or a permit is the hold itself. Others have a number behind a colon. */
static bool is_of(const char *holder_id, const char *hold, size_t len)
{
    return len > 0 && strncmp(holder_id, hold, len) == 0 &&
           (holder_id[len] == ':' || holder_id[len] == '\0');
}

bool ancestors_have(const char *list, const char *holder_id)
{
    for (const char *line = list; line && *line; line += strcspn(line, "\n")) {
        line += *line == '\n';
        if (is_of(holder_id, line, strcspn(line, "\t\n")))
            return true;
    }
    return false;
}

/* The length of "scheme://", and in `*rest` what follows user and password. */
static int skip_login(const char *url, const char **rest)
{
    const char *host = strstr(url, "://");
    const char *at;

    host = host ? host + strlen("://") : url;
    at = memrchr(host, '@', strcspn(host, "/?"));
    *rest = at ? at + 1 : host;
    return (int)(host - url);
}

/* Url and name as in a line of the list. NULL if there is no memory. */
static char *describe(const char *url, const char *name)
{
    char *shown_name = text_escape(name), *shown_url, *both = NULL;
    const char *rest;
    int scheme;

    url = url ? url : DEFAULT_URL;
    scheme = skip_login(url, &rest);
    shown_url = text_escape(rest);
    if (!shown_name || !shown_url ||
        asprintf(&both, "%.*s%s\t%s", scheme, url, shown_url, shown_name) < 0)
        both = NULL;
    free(shown_url);
    free(shown_name);
    return both;
}

unsigned ancestors_count(const char *list, const char *url, const char *name)
{
    char *both = describe(url, name);
    unsigned n = 0;

    for (const char *line = list; both && line && *line; line += strcspn(line, "\n")) {
        line += *line == '\n';
        line += strcspn(line, "\t\n");
        n += *line == '\t' && strcspn(line + 1, "\n") == strlen(both) &&
             strncmp(line + 1, both, strlen(both)) == 0;
    }
    free(both);
    return n;
}

bool ancestors_add(const char *hold, const char *url, const char *name)
{
    const char *list = ancestors_list();
    char *both = describe(url, name), *all = NULL;
    bool done = both &&
                asprintf(&all, "%s%s%s\t%s", list ? list : "", list ? "\n" : "", hold, both) >= 0 &&
                setenv(VARIABLE, all, 1) == 0;

    free(all);
    free(both);
    return done;
}
