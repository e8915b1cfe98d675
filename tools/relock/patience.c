#include "patience.h"

#include "clock.h"

#include <relock.h>

#include <netdb.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>

#define FIRST_PAUSE_MS 100
#define LONGEST_PAUSE_MS 1000

int64_t patience_left(const struct patience *patience)
{
    uint64_t passed_ms = clock_ms() - patience->began_ms;

    if (patience->wait_ms == RELOCK_FOREVER)
        return RELOCK_FOREVER;
    return passed_ms < (uint64_t)patience->wait_ms ? patience->wait_ms - (int64_t)passed_ms : 0;
}

static bool has_any(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (strstr(text, *words))
            return true;
    return false;
}

/* Of several hosts, another one may come back. */
static bool is_wrong_host(const char *why, const char *url)
{
    return url && !strchr(url, ',') && strstr(why, gai_strerror(EAI_NONAME));
}

bool patience_mends(int result, const char *why, const char *url)
{
    static const char *const for_now[] = {"LOADING",      "BUSY",     "MASTERDOWN",
                                          "CLUSTERDOWN",  "TRYAGAIN", "max number of clients",
                                          "is a replica", NULL};
    static const char *const wrong_port[] = {"the server speaks TLS", "the server speaks HTTP",
                                             "the server does not speak TLS", NULL};

    if (result == RELOCK_E_CONN)
        return !is_wrong_host(why, url) && !has_any(why, wrong_port);
    return result == RELOCK_E_SERVER && has_any(why, for_now);
}

bool patience_pause(struct patience *patience)
{
    struct pollfd stop = {.fd = patience->stop_fd, .events = POLLIN};
    int64_t left_ms = patience_left(patience);
    int64_t pause_ms = FIRST_PAUSE_MS << (patience->n_failures < 4 ? patience->n_failures : 4);

    if (left_ms == 0)
        return false;
    patience->n_failures++;
    if (pause_ms > LONGEST_PAUSE_MS)
        pause_ms = LONGEST_PAUSE_MS;
    return poll(&stop, 1, (int)(pause_ms < left_ms ? pause_ms : left_ms)) == 0 &&
           patience_left(patience) > 0;
}
