/*
 * Descriptor - opens and closes the descriptors of the library, none of which is 0, 1 or 2
 *
 * A program may have closed its standard descriptors. If a socket became number 2, all that the
 * program or the log writes to stderr would go to Redis, and each reply to these bytes would be
 * taken for that to a command. So nothing else in the library opens a descriptor.
 *
 * Each belongs to a scope: to a client, or to a queue of events. A list has the descriptors by
 * their scope, so that a forked child can close its copies and read nothing else of these objects,
 * which threads of the parent may have been changing. fork() waits until no descriptor is being
 * opened or closed, so the list is exact in the child: it closes all copies, and no file of the
 * program that has got the number of a closed descriptor.
 *
 * Threads: any.
 */
#ifndef RELOCK_DESCRIPTOR_H
#define RELOCK_DESCRIPTOR_H

/* Each returns a descriptor that exec() closes and that does not block, or -1 with errno. A scope
 * is any address; NULL: the descriptor has none. */
int relock_descriptor_socket(const void *scope, int family);
int relock_descriptor_eventfd(const void *scope);
int relock_descriptor_epoll(const void *scope);

/* Takes -1, and descriptors from elsewhere. Returns -1. */
int relock_descriptor_close(int fd);

/* In a forked child: closes the copies of all descriptors of the scope. */
void relock_descriptor_close_all(const void *scope);

#define RELOCK_DESCRIPTOR_DENIED \
    "a sandbox (seccomp) denies the system call eventfd2: permit it there"

/* Why relock_descriptor_eventfd has failed with this errno. */
const char *relock_descriptor_why(int err);

#endif
