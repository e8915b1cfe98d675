#include "support/rights.h"

#include <stdio.h>
#include <string.h>

#define LINE_MAX_LEN 2048
#define LINE_BEGINS "ACL SETUSER " RIGHTS_USER " "

/* What the tool prints, from the first right on. */
static void read_rights(const char *kind, char rights[LINE_MAX_LEN])
{
    char command[512], line[LINE_MAX_LEN] = "";
    FILE *tool;

    (void)snprintf(command, sizeof(command),
                   RELOCK_TOOL " acl --prefix orders --user " RIGHTS_USER " %s", kind);
    tool = popen(command, "r");
    assert_non_null(tool);
    assert_non_null(fgets(line, sizeof(line), tool));
    assert_int_equal(pclose(tool), 0);
    assert_memory_equal(line, LINE_BEGINS, strlen(LINE_BEGINS));
    (void)snprintf(rights, LINE_MAX_LEN, "%s", line + strlen(LINE_BEGINS));
}

/* In one command: clients of this user may be at work. */
bool rights_give_at(struct probe *probe, const char *kind, const char *without)
{
    char command[LINE_MAX_LEN] = "ACL SETUSER " RIGHTS_USER " reset on >" RIGHTS_PASSWORD;
    char line[LINE_MAX_LEN], word[128];
    const char *rights = line;
    size_t len = strlen(command);
    int n;

    read_rights(kind, line);
    for (; sscanf(rights, "%127s%n", word, &n) == 1; rights += n)
        if (!without || strncmp(word, without, strlen(without)) != 0)
            len += (size_t)snprintf(command + len, sizeof(command) - len, " %s", word);
    assert_in_range(len, 0, sizeof(command) - 1);
    return probe_int(probe, command) == 0;
}

void rights_give(struct fixture *f, const char *kind, const char *without)
{
    assert_true(rights_give_at(f->probe, kind, without));
}

static bool is_among(const char *const *others, const char *word)
{
    while (*others && strcmp(*others, word) != 0)
        others++;
    return *others;
}

void rights_assert_needed(struct fixture *f, const char *kind, const char *const *others,
                          void (*live)(struct fixture *f))
{
    char line[LINE_MAX_LEN], word[128];
    const char *rights = line;
    int n;

    read_rights(kind, line);
    for (; sscanf(rights, "%127s%n", word, &n) == 1; rights += n) {
        if (is_among(others, word))
            continue;
        rights_give(f, kind, word);
        assert_int_equal(probe_int(f->probe, "SCRIPT FLUSH"), 0);
        assert_int_equal(probe_int(f->probe, "ACL LOG RESET"), 0);
        live(f);
        if (*probe_list(f->probe, "ACL LOG") == '\0')
            fail_msg("%s does not need %s", kind, word);
    }
    rights_give(f, kind, NULL);
}

struct relock_client *rights_client(struct fixture *f, uint64_t lease_ms, unsigned flags)
{
    return fixture_client(f, &(struct relock_options){.user = RIGHTS_USER,
                                                      .password = RIGHTS_PASSWORD,
                                                      .recheck_ms = NEVER_MS,
                                                      .watchdog_timeout_ms = lease_ms,
                                                      .flags = flags});
}
