/* Receiver - what a channel tells its subscribers */
#ifndef RELOCK_RECEIVER_H
#define RELOCK_RECEIVER_H

#include <stddef.h>

enum relock_channel_event {
    RELOCK_CHANNEL_SUBSCRIBED, /* from now on all messages arrive */
    RELOCK_CHANNEL_MESSAGE,
    RELOCK_CHANNEL_REFUSED, /* no messages: the user may not subscribe to it */
    RELOCK_CHANNEL_DOWN,    /* no messages until it is subscribed again */
};

/* With a message comes its text, `len` bytes; else NULL. */
typedef void relock_channel_fn(void *arg, enum relock_channel_event event, const char *text,
                               size_t len);

#endif
