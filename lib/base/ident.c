#include "base/ident.h"

#include "base/clock.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

bool relock_ident_random(void *bytes, size_t len)
{
    unsigned char *at = bytes;

    while (len > 0) {
        ssize_t n = getrandom(at, len, 0);

        if (n < 0 && errno != EINTR)
            return false; /* a predictable id could be used twice: two holders of one lock */
        if (n > 0) {
            at += n;
            len -= (size_t)n;
        }
    }
    return true;
}

bool relock_ident_uuid(char uuid[RELOCK_UUID_LEN + 1])
{
    unsigned char b[16];

    if (!relock_ident_random(b, sizeof(b)))
        return false;
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40); /* version: random */
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80); /* variant */
    (void)snprintf(uuid, RELOCK_UUID_LEN + 1,
                   "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
                   b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
                   b[14], b[15]);
    return true;
}

uint32_t relock_ident_jitter(uint32_t below)
{
    static atomic_uint_fast64_t n;
    uint64_t bits = relock_clock_now_ns() + ((uint64_t)getpid() << 32);

    /* splitmix64: calls in the same nanosecond differ by their number */
    bits += (atomic_fetch_add(&n, 1) + 1) * UINT64_C(0x9e3779b97f4a7c15);
    bits = (bits ^ (bits >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ (bits >> 27)) * UINT64_C(0x94d049bb133111eb);
    return below > 0 ? (uint32_t)((bits >> 32) % below) : 0;
}
