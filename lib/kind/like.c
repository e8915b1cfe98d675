/*
 * Plain locks in the form of other libraries: for each library, what the key has before the name,
 * and how a release wakes its waiters. There is no column for the lease, and that of the value only
 * serves to tell whose it is: no library reads those of other holders. It compares the value with
 * its own alone, and Redis keeps a lease in milliseconds, however it was set.
 */
#include "kind/like.h"

#include "kind/kinds.h"
#include "lock/state/lock.h"

#include <string.h>

/* ---- those whose waiters do not poll soon --------------------------------------------------- */

/* A plain lock that is broken tells the same: scripts/like_guess.lua. */

#define ANNOUNCED RELOCK_PLAIN_KIND(&relock_script_like_unlock, &relock_script_like_force_unlock)

/* Its waiters block on a list. */
static const struct relock_kind python_redis_lock = {
    ANNOUNCED,
    .announcement = &(const struct relock_announcement){"lpush", "lock-signal:%n", "1"},
};

/* One channel for all locks. */
static const struct relock_kind simple_redis_mutex = {
    ANNOUNCED,
    .announcement =
        &(const struct relock_announcement){"publish", "@simple-redis-mutex:locks-releases",
                                            "{ \"key\": %j, \"value\": \"%t\" }"},
};

/* With PUB_SUB_LOCK. With SPIN_LOCK, nobody listens. */
static const struct relock_kind spring_integration = {
    ANNOUNCED,
    .announcement = &(const struct relock_announcement){"publish", "%p-channel:%k", "%k"},
};

/* ---- libraries ------------------------------------------------------------------------------ */

/* The key is the texts of three columns and the name. The parameter is the default; "" means that
 * the library has none, so the caller must give one; NULL, that the key has no parameter. The last
 * column is the form of its values, if they and its keys are those of no other library: see
 * has_form(). */
#define UUID "........-....-....-....-............"
#define UUID1_HEX "............1..................."
#define BASE64_OF_18 "........................"
#define DIGITS_OF_MS "............." /* since 1970 */

#define LIBRARIES(XX)                                                                          \
    XX("bsm-redislock", "", NULL, "", NULL, NULL)                                              \
    XX("django-redis", "", ":1", ":", NULL, UUID1_HEX)                                         \
    XX("node-redlock", "", NULL, "", NULL, NULL)                                               \
    XX("pottery", "redlock:", NULL, "", NULL, UUID)                                            \
    XX("python-redis-lock", "lock:", NULL, "", &python_redis_lock, BASE64_OF_18)               \
    XX("redis-lock", "lock.", NULL, "", NULL, DIGITS_OF_MS)                                    \
    XX("redis-py", "", NULL, "", NULL, UUID1_HEX)                                              \
    XX("redis-semaphore", "mutex:", NULL, "", NULL, UUID)                                      \
    XX("redlock-py", "", NULL, "", NULL, NULL)                                                 \
    XX("redlock-universal", "", NULL, "", NULL, NULL)                                          \
    XX("redsync", "", NULL, "", NULL, NULL)                                                    \
    XX("rslock", "", NULL, "", NULL, NULL)                                                     \
    XX("rueidislock", "", "rueidislock", ":0:", NULL, "*")                                     \
    XX("sesamecare-redlock", "", NULL, "", NULL, NULL)                                         \
    XX("shedlock", "job-lock:", "default", ":", NULL, "ADDED:*")                               \
    XX("simple-redis-mutex", "@simple-redis-mutex:lock-", NULL, "", &simple_redis_mutex, "0*") \
    XX("spring-integration", "", "", ":", &spring_integration, NULL)

struct library {
    const char *name;
    const char *before;
    const char *parameter;
    const char *behind;
    const struct relock_kind *kind; /* NULL: that of relock_plainlock_new */
    const char *form;               /* NULL: others share it */
};

static const struct library libraries[] = {
#define XX(...) {__VA_ARGS__},
    LIBRARIES(XX)
#undef XX
};

#define XX(name, ...) " " name
static const char unknown[] = "relock_plainlock_like: `library` is none of" LIBRARIES(XX);
#undef XX

static const struct library *find(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof(libraries) / sizeof(*libraries); i++) {
        if (strlen(libraries[i].name) == len && memcmp(libraries[i].name, name, len) == 0)
            return &libraries[i];
    }
    return NULL;
}

/* ---- of which library is it? ---------------------------------------------------------------- */

/* In a form, a dot is any character but =, and a `*` at the end any text. */
static bool has_form(const char *form, const char *text)
{
    for (; *form && *form != '*'; form++, text++)
        if (!*text || (*form == '.' ? *text == '=' : *form != *text))
            return false;
    return *form == '*' || !*text;
}

static bool skip(const char **text, const char *word)
{
    size_t len = strlen(word);

    if (strncmp(*text, word, len) != 0)
        return false;
    *text += len;
    return true;
}

/* If a library has a word of its own before the parameter, this may be other than the default. */
static bool has_key(const struct library *library, const char *key)
{
    if (!skip(&key, library->before))
        return false;
    if (!library->parameter)
        return true;
    if (*library->before)
        return strstr(key, library->behind) != NULL;
    return skip(&key, library->parameter) && skip(&key, library->behind);
}

static bool is_relocks(const char *token)
{
    return strlen(token) == 40 && strspn(token, "0123456789abcdef") == 40;
}

const char *relock_like_library(const char *key, const char *token)
{
    for (size_t i = 0; !is_relocks(token) && i < sizeof(libraries) / sizeof(*libraries); i++) {
        const struct library *library = &libraries[i];

        if (library->form && has_form(library->form, token) && has_key(library, key))
            return library->name;
    }
    return "";
}

/* ---- such locks ----------------------------------------------------------------------------- */

/* The part of the key before the name: RELOCK_NAME_MAX bytes at most, without a NUL. */
struct prefix {
    char text[RELOCK_NAME_MAX];
    size_t len;
    bool is_cut;
};

static void append(struct prefix *prefix, const char *text, size_t len)
{
    prefix->is_cut = prefix->is_cut || len > sizeof(prefix->text) - prefix->len;
    if (prefix->is_cut || len == 0)
        return;
    memcpy(prefix->text + prefix->len, text, len);
    prefix->len += len;
}

int relock_plainlock_like(struct relock_client *client, const char *library, const char *name,
                          struct relock_lock **lock)
{
    const char *colon = library ? strchr(library, ':') : NULL;
    const struct library *found = NULL;
    struct prefix prefix = {.len = 0};
    const char *parameter;

    if (library)
        found = find(library, colon ? (size_t)(colon - library) : strlen(library));
    if (!found || !client)
        return relock_client_refuse(client, unknown);
    if (colon && !found->parameter)
        return relock_client_refuse(client, "relock_plainlock_like: the keys of this library have "
                                            "no parameter, so nothing may follow its name");
    parameter = colon ? colon + 1 : found->parameter;
    if (found->parameter && !*parameter)
        return relock_client_refuse(client, "relock_plainlock_like: the name of this library must "
                                            "be followed by a colon and its parameter: of "
                                            "spring-integration, the key of the registry");
    append(&prefix, found->before, strlen(found->before));
    if (parameter)
        append(&prefix, parameter, strlen(parameter));
    append(&prefix, found->behind, strlen(found->behind));
    append(&prefix, client->options.name_prefix, client->prefix_len);
    if (prefix.is_cut)
        return relock_client_refuse(client, "relock_plainlock_like: the key would be longer than "
                                            "4096 bytes");
    return relock_lock_make_shared(client, found->kind ? found->kind : relock_kind_plain(client),
                                   (struct relock_text){prefix.text, prefix.len}, name, lock);
}
