/* A plug-in is linked with the archive of the library. A thread calls it, and outlives it. */
#include "support/actor.h"
#include "support/fixture.h"

#include <dlfcn.h>

static const char *path; /* of the plug-in */

struct plugin {
    int (*use)(const char *url);
    const char *url;
};

static int use(void *arg)
{
    const struct plugin *plugin = arg;

    return plugin->use(plugin->url);
}

static void a_thread_ends_well_after_the_plug_in_that_it_called_was_closed(void **state)
{
    struct fixture *f = *state;
    struct plugin plugin = {.url = f->server->unix_url};
    struct actor *actor = actor_start();

    for (int i = 0; i < 2; i++) {
        void *opened = dlopen(path, RTLD_NOW | RTLD_LOCAL);

        assert_non_null(opened);
        *(void **)&plugin.use = dlsym(opened, "plugin_use");
        assert_non_null(plugin.use);
        actor_begin(actor, use, &plugin);
        assert_result(actor_result(actor), RELOCK_OK);
        assert_int_equal(dlclose(opened), 0);
        assert_null(dlopen(path, RTLD_NOW | RTLD_NOLOAD)); /* it is unmapped */
    }
    actor_end(actor);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_thread_ends_well_after_the_plug_in_that_it_called_was_closed),
    };

    path = argv[argc - 1];
    return SERVER_TESTS_RUN(tests);
}
