/*
 * Url - the parts of a server's url
 *
 * Threads: any.
 */
#ifndef RELOCK_URL_H
#define RELOCK_URL_H

#include <stdbool.h>
#include <stdint.h>

/* More sentinels in one url are an error. */
#define RELOCK_SENTINELS_MAX 16

struct relock_url_host {
    char *name; /* or address */
    uint16_t port;
};

/* The parts of a url. Parts that it lacks are NULL. */
struct relock_url {
    char *host; /* TCP */
    uint16_t port;
    bool tls;   /* rediss:// */
    char *path; /* unix socket, instead of host and port */
    /* instead of both: the sentinels, and what they call the master */
    struct relock_url_host sentinels[RELOCK_SENTINELS_MAX];
    unsigned n_sentinels;
    char *master;
    char *user;
    char *password;
    unsigned db;
};

/*
 * Reads redis://[[user]:password@]host[:port][/db], unix:///path[?db=n], and
 * redis+sentinel://[[user]:password@]host[:port][,host[:port]...]/master[/db]. With rediss for
 * redis, connections are encrypted. User, password, path and master may hold %xx.
 *
 * Returns RELOCK_OK, RELOCK_E_INVALID, RELOCK_E_UNSUPPORTED for schemes that later versions will
 * support, RELOCK_E_NOMEM. `*why` is the cause; it repeats no part of the url.
 */
int relock_url_parse(struct relock_url *url, const char *text, const char **why);
void relock_url_deinit(struct relock_url *url);

#endif
