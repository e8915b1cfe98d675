/*
 * Client - makes a client with the layers that it is to have
 *
 * relock_client_new() in layers.c makes one with all layers of the library.
 */
#ifndef RELOCK_CLIENT_MAKE_H
#define RELOCK_CLIENT_MAKE_H

#include <relock.h>

/* Attaches layers to a client that no other thread knows. Returns RELOCK_OK, RELOCK_E_NOMEM. */
typedef int relock_attach_fn(struct relock_client *client);

/* As relock_client_new, with the layers that `attach` attaches; NULL: none. */
int relock_client_make(const struct relock_options *options, relock_attach_fn *attach,
                       struct relock_client **client);

#endif
