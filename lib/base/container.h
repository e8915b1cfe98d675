/* Container - from a pointer to a field to the struct that embeds it */
#ifndef RELOCK_CONTAINER_H
#define RELOCK_CONTAINER_H

#include <stddef.h>

#define RELOCK_CONTAINER(type, field, pointer) ((type *)((char *)(pointer)-offsetof(type, field)))

#endif
