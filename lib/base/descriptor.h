/*
 * Descriptor - opens the descriptors of the library, none of which is 0, 1 or 2
 *
 * A program may have closed its standard descriptors. If a socket became number 2, all that the
 * program or the log writes to stderr would go to Redis, and each reply to these bytes would be
 * taken for that to a command. So nothing else in the library opens a descriptor.
 *
 * Threads: any.
 */
#ifndef RELOCK_DESCRIPTOR_H
#define RELOCK_DESCRIPTOR_H

/* Each returns a descriptor that exec() closes and that does not block, or -1 with errno. */
int relock_descriptor_socket(int family);
int relock_descriptor_eventfd(void);
int relock_descriptor_epoll(void);

#define RELOCK_DESCRIPTOR_DENIED \
    "a sandbox (seccomp) denies the system call eventfd2: permit it there"

/* Why relock_descriptor_eventfd has failed with this errno. */
const char *relock_descriptor_why(int err);

#endif
