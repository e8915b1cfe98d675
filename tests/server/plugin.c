/* A plug-in that contains the library: see plugin_test.c. */
#include <relock.h>

#include <stddef.h>

RELOCK_API int plugin_use(const char *url);

int plugin_use(const char *url)
{
    struct relock_client *client;
    struct relock_lock *lock = NULL;
    int r = relock_client_new(&(struct relock_options){.url = url}, &client);

    if (r < 0)
        return r;
    r = relock_lock_new(client, "orders", &lock);
    if (r == RELOCK_OK)
        r = relock_lock(lock);
    if (r == RELOCK_OK)
        r = relock_unlock(lock);
    (void)relock_lock_free(lock);
    (void)relock_client_free(client);
    return r;
}
