/*
 * Probe - static tracepoints (USDT), which bpftrace, perf and SystemTap find in the library
 *
 * Without a tracer each is one instruction that does nothing. They exist if the build found
 * sys/sdt.h; docs/operations.md lists them. The arguments must have no side effects.
 *
 * Threads: any; under any mutex.
 */
#ifndef RELOCK_PROBE_H
#define RELOCK_PROBE_H

#ifdef RELOCK_HAS_PROBES

#include <sys/sdt.h>

/* `lock` is its key in Redis. */
#ifdef __clang__
#define RELOCK_PROBE(name, lock, owner, value)                                          \
    do {                                                                                \
        _Pragma("clang diagnostic push")                                                \
            _Pragma("clang diagnostic ignored \"-Wgnu-zero-variadic-macro-arguments\"") \
                DTRACE_PROBE3(relock, name, (const char *)(lock), owner, value);        \
        _Pragma("clang diagnostic pop")                                                 \
    } while (0)
#else
#define RELOCK_PROBE(name, lock, owner, value) \
    DTRACE_PROBE3(relock, name, (const char *)(lock), owner, value)
#endif

#else

#define RELOCK_PROBE(name, lock, owner, value) \
    do {                                       \
        (void)(lock);                          \
        (void)(owner);                         \
        (void)(value);                         \
    } while (0)

#endif
#endif
