/* Uses relock as a subproject. The argument is the URL of a server that is not there. */
#include <relock.h>
#include <stdio.h>

static void keep_quiet(int level, const char *text, void *arg)
{
    (void)level, (void)text, (void)arg;
}

int main(int argc, char **argv)
{
    struct relock_options options = {0};
    struct relock_client *client = NULL;
    int result;

    if (argc != 2)
        return 2;
    options.url = argv[1];
    options.on_log = keep_quiet;

    result = relock_client_new(&options, &client);
    printf("%s\n", relock_strerror(result));
    return result == RELOCK_E_CONN && !client ? 0 : 1;
}
