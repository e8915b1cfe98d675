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

bool ancestors_add(const char *hold, const char *url, const char *name)
{
    const char *list = ancestors_list(), *rest;
    char *shown_name = text_escape(name), *shown_url, *all = NULL;
    int scheme;
    bool done;

    url = url ? url : DEFAULT_URL;
    scheme = skip_login(url, &rest);
    shown_url = text_escape(rest);
    done = shown_name && shown_url &&
           asprintf(&all, "%s%s%s\t%.*s%s\t%s", list ? list : "", list ? "\n" : "", hold, scheme,
                    url, shown_url, shown_name) >= 0 &&
           setenv(VARIABLE, all, 1) == 0;
    free(all);
    free(shown_url);
    free(shown_name);
    return done;
}
