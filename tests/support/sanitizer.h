/*
 * Sanitizer - which sanitizer the tests are built with, as constants that are 0 or 1
 *
 * Threads: any.
 */
#ifndef RELOCK_TEST_SANITIZER_H
#define RELOCK_TEST_SANITIZER_H

#if defined(__has_feature)
#define UNDER_ASAN __has_feature(address_sanitizer)
#define UNDER_TSAN __has_feature(thread_sanitizer)
#else
#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#else
#define UNDER_ASAN 0
#endif
#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#else
#define UNDER_TSAN 0
#endif
#endif

#endif
