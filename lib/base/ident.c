#include "base/ident.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

void relock_ident_random(void *bytes, size_t len)
{
    unsigned char *at = bytes;

    while (len > 0) {
        ssize_t n = getrandom(at, len, 0);

        if (n < 0 && errno != EINTR)
            abort(); /* a predictable id could be used twice: two holders of one lock */
        if (n > 0) {
            at += n;
            len -= (size_t)n;
        }
    }
}

void relock_ident_uuid(char uuid[RELOCK_UUID_LEN + 1])
{
    unsigned char b[16];

    relock_ident_random(b, sizeof(b));
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40); /* version: random */
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80); /* variant */
    (void)snprintf(uuid, RELOCK_UUID_LEN + 1,
                   "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
                   b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
                   b[14], b[15]);
}

uint32_t relock_ident_jitter(uint32_t below)
{
    uint32_t random;

    relock_ident_random(&random, sizeof(random));
    return below > 0 ? random % below : 0;
}
