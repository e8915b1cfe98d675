#include "support/rights.h"

#include <stdio.h>
#include <string.h>

#define USER "locker"
#define PASSWORD "secret"

#define LINE_MAX_LEN 1024
#define LINE_BEGINS "    ACL SETUSER " USER " on >" PASSWORD " "

/* The line of the page under `    # kind`, from its first right on. */
static void read_rights(const char *path, const char *kind, char rights[LINE_MAX_LEN])
{
    FILE *page = fopen(path, "r");
    char title[64], line[LINE_MAX_LEN] = "";

    assert_non_null(page);
    (void)snprintf(title, sizeof(title), "    # %s\n", kind);
    while (strcmp(line, title) != 0)
        assert_non_null(fgets(line, sizeof(line), page));
    assert_non_null(fgets(line, sizeof(line), page));
    assert_memory_equal(line, LINE_BEGINS, strlen(LINE_BEGINS));
    (void)snprintf(rights, LINE_MAX_LEN, "%s", line + strlen(LINE_BEGINS));
    fclose(page);
}

/* The names of the page begin with "orders:", the one of the tests is "orders". */
static void allow(struct fixture *f, char *right)
{
    char *colon = strstr(right, ":*");

    if (colon)
        (void)memcpy(colon, "*", sizeof("*"));
    assert_int_equal(probe_int(f->probe, "ACL SETUSER " USER " %s", right), 0);
}

void rights_give(struct fixture *f, const char *page, const char *kind, const char *without)
{
    char line[LINE_MAX_LEN], word[64];
    const char *rights = line;
    int n;

    read_rights(page, kind, line);
    assert_int_equal(probe_int(f->probe, "ACL SETUSER " USER " reset on >" PASSWORD), 0);
    for (; sscanf(rights, "%63s%n", word, &n) == 1; rights += n)
        if (!without || strncmp(word, without, strlen(without)) != 0)
            allow(f, word);
}

struct relock_client *rights_client(struct fixture *f, uint64_t lease_ms, unsigned flags)
{
    return fixture_client(f, &(struct relock_options){.user = USER,
                                                      .password = PASSWORD,
                                                      .recheck_ms = NEVER_MS,
                                                      .watchdog_timeout_ms = lease_ms,
                                                      .flags = flags});
}
