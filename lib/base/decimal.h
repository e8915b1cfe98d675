/* Decimal - writes numbers as text, faster than printf. Threads: any. */
#ifndef RELOCK_DECIMAL_H
#define RELOCK_DECIMAL_H

#include <stddef.h>
#include <stdint.h>

#define RELOCK_DECIMAL_MAX 21 /* with a NUL */

/* Writes the digits and a NUL. Returns the number of digits. */
size_t relock_decimal(char out[RELOCK_DECIMAL_MAX], uint64_t number);

#endif
