/*
 * Hosts - answers of the system's resolver, put together by a test
 *
 * Threads: any.
 */
#ifndef RELOCK_TEST_HOSTS_H
#define RELOCK_TEST_HOSTS_H

#include <netdb.h>

#define HOSTS_MAX 12

/* As getaddrinfo() for a host that has these addresses, in digits, up to the first NULL. Behind a
 * blank, an address may have a port of its own. The program must wrap getaddrinfo. */
int hosts_find(const char *const addresses[HOSTS_MAX], const char *port, struct addrinfo **found);

#endif
