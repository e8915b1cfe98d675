/* The slots of keys, as CLUSTER KEYSLOT of a server says. */
#include "redis/deployment/slot_map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static unsigned slot_of(const char *key)
{
    return relock_slot_of((struct relock_text){key, strlen(key)});
}

static void the_slot_is_that_of_the_hash_tag(void **state)
{
    static const struct {
        const char *key;
        unsigned slot;
    } keys[] = {
        {"123456789", 12739}, {"orders", 105},        {"{orders}", 105}, {"a{orders}b", 105},
        {"{orders}{x}", 105}, {"x{}{orders}", 10344}, {"{orders", 3879}, {"orders}", 1594},
        {"{}", 15257},        {"\xff\x80", 4727},     {"", 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(keys); i++)
        assert_int_equal(slot_of(keys[i].key), keys[i].slot);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_slot_is_that_of_the_hash_tag),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
