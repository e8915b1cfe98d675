#include "redis/server/credentials.h"

#include <stdlib.h>
#include <string.h>

struct relock_credentials *relock_credentials_new(const char *user, const char *password)
{
    struct relock_credentials *new = calloc(1, sizeof(*new));

    if (!new)
        return NULL;
    new->user = user ? strdup(user) : NULL;
    new->password = strdup(password);
    if (new->password && (new->user || !user))
        return new;
    relock_credentials_free(new);
    return NULL;
}

void relock_credentials_free(struct relock_credentials *credentials)
{
    while (credentials) {
        struct relock_credentials *older = credentials->older;

        free(credentials->user);
        free(credentials->password);
        free(credentials);
        credentials = older;
    }
}
