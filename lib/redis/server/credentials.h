/*
 * Credentials - the user and the password with which connections log in
 *
 * They may change while a connection that logs in reads them, without a mutex. So old ones stay in
 * memory as long as the struct relock_server: server.h.
 *
 * Threads: any; constant.
 */
#ifndef RELOCK_CREDENTIALS_H
#define RELOCK_CREDENTIALS_H

struct relock_credentials {
    char *user;     /* NULL: the default user */
    char *password; /* NULL: connections do not log in */
    struct relock_credentials *older;
};

/* Copies. NULL when out of memory. */
struct relock_credentials *relock_credentials_new(const char *user, const char *password);

/* Frees older ones, too. Takes NULL. */
void relock_credentials_free(struct relock_credentials *credentials);

#endif
