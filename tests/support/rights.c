#include "support/rights.h"

#include <stdio.h>
#include <string.h>

#define LINE_MAX_LEN 1024
#define LINE_BEGINS "    ACL SETUSER " RIGHTS_USER " on >" RIGHTS_PASSWORD " "

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
static void allow(char command[LINE_MAX_LEN], const char *right)
{
    const char *colon = strstr(right, ":*");
    int len = (int)(colon ? (size_t)(colon - right) : strlen(right));
    size_t used = strlen(command);
    int n = snprintf(command + used, LINE_MAX_LEN - used, " %.*s%s", len, right, colon ? "*" : "");

    assert_in_range(n, 0, LINE_MAX_LEN - used - 1);
}

/* In one command: clients of this user may be at work. */
void rights_give_at(struct probe *probe, const char *page, const char *kind, const char *without)
{
    char command[LINE_MAX_LEN] = "ACL SETUSER " RIGHTS_USER " reset on >" RIGHTS_PASSWORD;
    char line[LINE_MAX_LEN], word[64];
    const char *rights = line;
    int n;

    read_rights(page, kind, line);
    for (; sscanf(rights, "%63s%n", word, &n) == 1; rights += n)
        if (!without || strncmp(word, without, strlen(without)) != 0)
            allow(command, word);
    assert_int_equal(probe_int(probe, command), 0);
}

void rights_give(struct fixture *f, const char *page, const char *kind, const char *without)
{
    rights_give_at(f->probe, page, kind, without);
}

struct relock_client *rights_client(struct fixture *f, uint64_t lease_ms, unsigned flags)
{
    return fixture_client(f, &(struct relock_options){.user = RIGHTS_USER,
                                                      .password = RIGHTS_PASSWORD,
                                                      .recheck_ms = NEVER_MS,
                                                      .watchdog_timeout_ms = lease_ms,
                                                      .flags = flags});
}
