#include "fake_sentinels.h"

#include "base/status.h"
#include "support/wait.h"
#include "unit/common/places.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

struct fake fakes[FAKES];
struct log *lines;
struct relock_server server;
static struct relock_log sink;

/* ---- the sentinels ------------------------------------------------------------------------- */

static void serve(struct fake_server *self, int fd)
{
    struct fake *fake = (struct fake *)self;
    char text[1024], fields[64];

    while (fake_server_hear(fd, text, sizeof(text))) {
        if (!strstr(text, "GET-MASTER-ADDR-BY-NAME")) {
            fake_server_say(fd, "*2\r\n$4\r\nmode\r\n$8\r\nsentinel\r\n");
            continue;
        }
        atomic_fetch_add(&fake->n_asked, 1);
        fake_server_say(fd, atomic_load(&fake->answer));
        snprintf(fields, sizeof(fields), "*2\r\n$12\r\nconfig-epoch\r\n$1\r\n%d\r\n",
                 atomic_load(&fake->epoch));
        fake_server_say(fd, fields);
    }
}

static bool start(struct fake *fake)
{
    atomic_store(&fake->answer, ADDRESS("7000"));
    atomic_store(&fake->epoch, 1);
    atomic_store(&fake->n_asked, 0);
    return fake_server_listen(&fake->server) && fake_server_run(&fake->server, serve);
}

/* ---- around the tests ---------------------------------------------------------------------- */

int sentinels_begin(void **state)
{
    struct relock_options options = {.connect_timeout_ms = slow_ms(SOON_MS),
                                     .command_timeout_ms = slow_ms(SOON_MS)};
    char url[128];

    (void)state;
    lines = log_new();
    sink = (struct relock_log){.level = RELOCK_LOG_DEBUG, .sink = log_write, .arg = lines};
    for (int i = 0; i < FAKES; i++)
        if (!start(&fakes[i]))
            return -1;
    snprintf(url, sizeof(url), "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d/shop",
             fakes[0].server.port, fakes[1].server.port);
    options.url = url;
    if (relock_server_init(&server, &options, "id", &sink) != RELOCK_OK)
        return -1;
    return relock_sentinels_attach(&server, &options, "id");
}

int sentinels_end(void **state)
{
    (void)state;
    relock_server_deinit(&server);
    for (int i = 0; i < FAKES; i++)
        fake_server_stop(&fakes[i].server);
    places_end();
    lines = log_free(lines);
    return 0;
}

void answer_with(int i, const char *answer)
{
    atomic_store(&fakes[i].answer, answer);
}

int look_up(struct relock_found *found)
{
    struct relock_lookup *lookup;
    struct pollfd pollfd = {.events = POLLIN};
    const char *why = "";
    int r;

    assert_int_equal(relock_lookup_new(server.resolver, NULL, &lookup, &why), RELOCK_OK);
    pollfd.fd = relock_lookup_fd(lookup);
    assert_int_equal(poll(&pollfd, 1, (int)slow_ms(2 * SOON_MS)), 1);
    r = relock_lookup_take(lookup, &found->addresses, &why);
    snprintf(found->why, sizeof(found->why), "%s", why);
    relock_lookup_free(lookup);
    if (r != RELOCK_OK)
        return r;
    return ntohs(((const struct sockaddr_in *)&found->addresses.at[0].address)->sin_port);
}
