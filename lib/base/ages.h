/*
 * Ages - knows how old the oldest of many things is, without a list of them
 *
 * It counts the things by the time at which they began, in spans of time. A span is at first 1 ms
 * long. When there is no room for another span, old ones that lie near each other become one. So
 * the age is exact while the thing that began first in its span is there. Later it is too high, by
 * at most a quarter and 1 ms; never too low. That holds for ages of up to half a year, however many
 * things there are. Each operation takes a few steps, or as many as there are spans.
 *
 * Threads: any, under a mutex of the owner.
 */
#ifndef RELOCK_AGES_H
#define RELOCK_AGES_H

#include <stdint.h>

#define RELOCK_AGES_SPANS 256

struct relock_ages {
    struct relock_span {
        uint64_t from_us, to_us; /* when the first and the last of its things began */
        uint64_t n;              /* of these, that are there */
    } spans[RELOCK_AGES_SPANS];  /* the oldest first, one after another */
    unsigned n;
};

/* Something began then. Most begin in the order of time. */
void relock_ages_add(struct relock_ages *ages, uint64_t since_us);

/* Something ended that began then, and was added. */
void relock_ages_remove(struct relock_ages *ages, uint64_t since_us);

/* Since when the oldest one is there, or from somewhat earlier; RELOCK_NEVER: nothing is there. */
uint64_t relock_ages_since_us(const struct relock_ages *ages);

#endif
