/*
 * The people of why_not: some on plain connections to Redis, some with relock, some in a process of
 * their own, to die in. What they do is printed, and what cannot fail here ends the program.
 */
#ifndef WHY_NOT_PEOPLE_H
#define WHY_NOT_PEOPLE_H

#include <hiredis/hiredis.h>
#include <relock.h>
#include <stdbool.h>
#include <sys/types.h>

#define LOCK "why-not"
#define LEASE_MS 500 /* of those who die or dawdle */

extern const char *url; /* redis://host:port or unix://path */

void must(bool done, const char *what, const char *why);

/* ---- on a plain connection ---- */

struct person {
    const char *name;
    redisContext *redis;
};

struct person come(const char *name);
void go(struct person *person);

/* A command of words without blanks. A nil is 0, an OK is 1, and all else here is a number. */
long long ask(const struct person *person, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Waits until whatever lease the lock has is over. */
void wait_until_free(const struct person *person);

/* How long the lock lasts, at the first moment in which there is one; -1: for ever. */
long long first_pttl(void);

/* Deletes the lock, quietly, between two stories. */
void clear(void);

/* ---- with relock ---- */

struct user {
    const char *name;
    struct relock_client *client;
    struct relock_lock *lock;
};

/* A hold is renewed, and its lease ends `lease_ms` after the last renewal. */
struct user join(const char *name, uint64_t lease_ms);
void leave(struct user *user);

/* Prints the result of a call, and returns it. */
int report(const struct user *user, const char *call, int r);

/* ---- a process that is killed ---- */

/* Does the work in a process of its own. Not while there is a client: it does not cross fork(). */
pid_t begin(void (*work)(void));
void die(const char *name);
void await_death(pid_t pid);

#endif
