/* The layers of a client from its beginning. lib/group attaches itself when it is first used. */
#include "client.h"
#include "deadlock/published.h"

int relock_client_new(const struct relock_options *options, struct relock_client **client)
{
    return relock_client_make(options, relock_published_attach, client);
}
