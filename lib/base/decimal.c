#include "base/decimal.h"

size_t relock_decimal(char out[RELOCK_DECIMAL_MAX], uint64_t number)
{
    size_t len = 1;

    for (uint64_t tens = number / 10; tens > 0; tens /= 10)
        len++;
    out[len] = '\0';
    for (size_t at = len; at > 0; number /= 10)
        out[--at] = (char)('0' + (number % 10));
    return len;
}
