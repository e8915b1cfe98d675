/*
 * Url - the parts of a server's url
 *
 * Threads: any.
 */
#ifndef RELOCK_URL_H
#define RELOCK_URL_H

#include <stdbool.h>
#include <stdint.h>

/* The parts of a url. Parts that it lacks are NULL. */
struct relock_url {
    char *host; /* TCP */
    uint16_t port;
    bool tls;   /* rediss:// */
    char *path; /* unix socket, instead of host and port */
    char *user;
    char *password;
    unsigned db;
};

/*
 * Reads redis://[[user]:password@]host[:port][/db], the same with rediss://, and
 * unix:///path[?db=n]. User, password and path may hold %xx.
 *
 * Returns RELOCK_OK, RELOCK_E_INVALID, RELOCK_E_UNSUPPORTED for schemes that later versions will
 * support, RELOCK_E_NOMEM. `*why` is the cause; it repeats no part of the url.
 */
int relock_url_parse(struct relock_url *url, const char *text, const char **why);
void relock_url_deinit(struct relock_url *url);

#endif
