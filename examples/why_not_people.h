/*
 * People - the actors of why_not.c: with plain connections, with relock, or in a child process
 *
 * Each action is printed. An error that the program does not demonstrate ends the program.
 */
#ifndef WHY_NOT_PEOPLE_H
#define WHY_NOT_PEOPLE_H

#include <hiredis/hiredis.h>
#include <relock.h>
#include <stdbool.h>
#include <sys/types.h>

#define LOCK "why-not"
#define LEASE_MS 500 /* lease of a holder that dies or works for too long */

extern const char *url; /* redis://host:port or unix://path */

void must(bool done, const char *what, const char *why);

/* ---- on a plain connection ---- */

struct person {
    const char *name;
    redisContext *redis;
};

struct person come(const char *name);
void go(struct person *person);

/* Sends a command, whose words must not contain blanks. Returns the number in the reply; 0 for nil
 * and 1 for OK. */
long long ask(const struct person *person, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Waits until the lease of the lock has expired. */
void wait_until_free(const struct person *person);

/* Waits until the lock exists, and returns its remaining lease; -1: it never expires. */
long long first_pttl(void);

/* Deletes the lock without printing it. */
void clear(void);

/* ---- with relock ---- */

struct user {
    const char *name;
    struct relock_client *client;
    struct relock_lock *lock;
};

/* A user whose holds are renewed. Their leases end `lease_ms` after the last renewal. */
struct user join(const char *name, uint64_t lease_ms);
void leave(struct user *user);

/* Prints the result of a call and returns it. */
int report(const struct user *user, const char *call, int r);

/* ---- a process that is killed ---- */

/* Does the work in a child process. Call it only while there is no client, because a child cannot
 * use a client of its parent. */
pid_t begin(void (*work)(void));
void die(const char *name);
void await_death(pid_t pid);

#endif
