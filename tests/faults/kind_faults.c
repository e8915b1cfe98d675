#include "kind_faults.h"

#include <stdio.h>
#include <string.h>

/* The scripts of reentrant locks in place of which a kind has others. */
static const struct {
    const char *script;
    const char *of[KINDS_AND_SIDES_N];
} others[] = {
    {"lock",
     {[KIND_FAIR] = "fair_lock",
      [KIND_PLAIN] = "plain_lock",
      [KIND_READ] = "read_lock",
      [KIND_WRITE] = "write_lock"}},
    {"unlock",
     {[KIND_FAIR] = "fair_unlock",
      [KIND_PLAIN] = "plain_unlock",
      [KIND_READ] = "read_unlock",
      [KIND_WRITE] = "write_unlock"}},
    {"extend", {[KIND_PLAIN] = "plain_renew", [KIND_READ] = "read_extend"}},
    {"renew", {[KIND_PLAIN] = "plain_renew", [KIND_READ] = "read_renew"}},
    {"force_unlock", {[KIND_PLAIN] = "plain_force_unlock"}},
};

const char *kind_words(const char *words)
{
    static char text[64];
    size_t length = strcspn(words, " ");

    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        const char *script = others[i].of[kind_now() - kinds];

        if (script && strlen(others[i].script) == length &&
            strncmp(others[i].script, words, length) == 0) {
            snprintf(text, sizeof(text), "%s%s", script, words + length);
            return text;
        }
    }
    return words;
}

struct proxy_rule *kind_next(struct faults *t, enum proxy_deed deed, const char *words)
{
    return proxy_next(t->proxy, deed, kind_words(words));
}

bool kind_counts(struct faults *t, const char *words, size_t n)
{
    return proxy_counts(t->proxy, kind_words(words), n);
}

bool kind_faults_wanted(int argc, char **argv)
{
    return argc > 1 && strncmp(argv[1], "kinds", 5) == 0;
}

static int begin(enum kind_no kind, void **state)
{
    int r = faults_begin(state);

    kind_choose(kind);
    return r;
}

int kind_faults_begin_fair(void **state)
{
    return begin(KIND_FAIR, state);
}

int kind_faults_begin_plain(void **state)
{
    return begin(KIND_PLAIN, state);
}

int kind_faults_begin_read(void **state)
{
    return begin(KIND_READ, state);
}

int kind_faults_begin_write(void **state)
{
    return begin(KIND_WRITE, state);
}
