#include "base/decimal.h"

#include <string.h>

size_t relock_decimal(char out[RELOCK_DECIMAL_MAX], uint64_t number)
{
    char digits[RELOCK_DECIMAL_MAX];
    size_t at = sizeof(digits);
    size_t len;

    do {
        digits[--at] = (char)('0' + (number % 10));
        number /= 10;
    } while (number > 0);
    len = sizeof(digits) - at;
    memcpy(out, digits + at, len);
    out[len] = '\0';
    return len;
}
