/* The layers of a client from its beginning. lib/group attaches itself when it is first used. */
#include "client.h"
#include "deadlock/published.h"
#include "look/since.h"

RELOCK_UNCHECKED static int attach(struct relock_client *client)
{
    int r = relock_published_attach(client);

    return r == RELOCK_OK ? relock_since_attach(client) : r;
}

int relock_client_new(const struct relock_options *options, struct relock_client **client)
{
    return relock_client_make(options, attach, client);
}
