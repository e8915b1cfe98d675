/*
 * Like - tells whose a plain lock is, by its key and its value
 *
 * Threads: any; all is constant.
 */
#ifndef RELOCK_KIND_LIKE_H
#define RELOCK_KIND_LIKE_H

/* The name of the library for relock_plainlock_like(), or "": relock, or several libraries have
 * such keys and values. `token` may be cut off behind its first characters. */
const char *relock_like_library(const char *key, const char *token);

#endif
