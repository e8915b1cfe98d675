#include "rights.h"

#include "must.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* `%` stands for the beginning of the names. */
#define CONNECT "+evalsha +script|load +info +client|info +client|kill +client|setname "
#define NAMES "~%* "
#define HOLD NAMES HOLD_ELSEWHERE
#define HOLD_ELSEWHERE                                                  \
    "~relock_waits:{* &__redis__:invalidate &relock_client:{* " CONNECT \
    "+ping +hset +hget +exists +del +unlink +pexpire "                  \
    "+pexpireat +pttl +time +publish +subscribe "                       \
    "+client|tracking +client|caching "
#define HASH "+hexists +hgetall "
#define STRING "+get +getrange +set "
#define LINE_OF_PERMITS                                               \
    "~relock_waiters:{%* ~relock_waiters:turn:{%* &relock_client:{* " \
    "+llen +lpos +lindex +lrange +lrem +rpush +hmget +hdel "
#define LINE LINE_OF_PERMITS "+hkeys +publish "
#define CHANNEL "&redisson_lock__channel:{%* +unsubscribe "
#define TOKEN "~redisson_lock_token:{%* "
#define QUEUE "~redisson_lock_queue:{%* ~redisson_lock_timeout:{%* "
#define PERMIT_CHANNEL "&redisson_sc:{%* +unsubscribe "
#define LEVELS "~{%* "
#define RW_CHANNEL "&redisson_rwlock:{%* +unsubscribe "

static const struct row {
    const char *name, *words;
    enum { PART, KIND, TRIED } use; /* TRIED: a kind that relock doctor can try */
} table[] = {
    {"reentrant", HOLD HASH LINE CHANNEL, TRIED},
    {"spin", HOLD HASH, TRIED},
    {"fenced", HOLD HASH LINE CHANNEL TOKEN "+incr +get +persist", TRIED},
    {"fair",
     HOLD HASH QUEUE CHANNEL
     "+lindex +lpos +lpop +lrange +lrem +rpush +zadd +zscore +zrem +zrevrange",
     TRIED},
    {"read-write", HOLD HASH LINE LEVELS RW_CHANNEL "+set", TRIED},
    {"plain", HOLD STRING, TRIED},
    {"announced-plain", HOLD STRING LINE CHANNEL, TRIED},
    {"python-redis-lock", "~lock:%* ~lock-signal:%* " HOLD_ELSEWHERE STRING "+lpush", KIND},
    {"simple-redis-mutex",
     "~@simple-redis-mutex:lock-%* &@simple-redis-mutex:locks-releases " HOLD_ELSEWHERE STRING,
     KIND},
    {"spring-integration", "~*:%* &*-channel:*:%* " HOLD_ELSEWHERE STRING, KIND},
    {"semaphore",
     HOLD LINE_OF_PERMITS LEVELS PERMIT_CHANNEL
     "+get +set +incrby +decrby +zadd +zcard +zrange +zrangebyscore +zrem +zscore",
     TRIED},
    {"unleased",
     NAMES CONNECT PERMIT_CHANNEL "+get +set +decrby +incrby +persist +publish +subscribe +ping",
     TRIED},
    {"latch",
     NAMES CONNECT "&redisson_countdownlatch__channel__{%* +get +set +decrby +del +publish "
                   "+subscribe +unsubscribe +ping",
     TRIED},
    {"operator",
     "~%* ~relock_waits:{* ~relock_waiters:{%* ~relock_waiters:turn:{%* " TOKEN QUEUE LEVELS
     "&relock_client:{* &redisson_lock__channel:{%* &redisson_rwlock:{%* &redisson_sc:{%* "
     "&redisson_countdownlatch__channel__{%* " CONNECT
     "+client|list +scan +type +hlen +hget +hgetall +hexists +strlen +get +exists +pttl "
     "+time +llen +lrange +zscore +zcard +zrange +del +publish +hmget +hset +pexpire +lindex +lrem "
     "+lpop +pubsub|numsub +zadd +zrem +zcount +zrangebyscore +incrby +persist +hdel "
     "~lock-signal:* &@simple-redis-mutex:locks-releases &*-channel:%* +lpush",
     PART},
    {"cluster", "+cluster|slots +asking +unsubscribe", PART},
    {"sharded", "+pubsub|shardnumsub +ssubscribe +sunsubscribe +spublish", PART},
    {"database", "+select", PART},
    {"replicas", "+wait", PART},
};

#define N_ROWS (sizeof(table) / sizeof(*table))

static const struct row *find_row(const char *name)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

bool rights_has_kind(const char *name)
{
    const struct row *row = find_row(name);

    return row && row->use != PART;
}

bool rights_are_tried(const char *name)
{
    const struct row *row = find_row(name);

    return row && row->use == TRIED;
}

void rights_refuse_kind(const struct args *args, const char *name)
{
    char known[256] = "";

    for (size_t i = 0; i < N_ROWS && table[i].use != PART; i++)
        (void)snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s",
                       i > 0 ? ", " : "", table[i].name);
    args_refuse(args, "`%s` is no kind of lock. The kinds are %s", name, known);
}

/* Redis refuses rights with a space, for which any character stands then. */
static char *make_pattern(const char *prefix)
{
    char *pattern = must(text_pattern(prefix));

    for (char *at = pattern; *at; at++)
        if (strchr(" \t\n\v\f\r", *at))
            *at = '?';
    return pattern;
}

/* If a name has a brace, the library adds none to its other keys and channels, but to those of a
 * latch; the line of waiting clients then has a colon there. */
static char *write_word(const char *prefix, const char *word, size_t len)
{
    char *pattern = make_pattern(prefix);
    char *out = must(malloc(len + strlen(pattern) + 1)), *at = out;
    bool has_brace = strchr(prefix, '{') != NULL;
    bool is_latch =
        strncmp(word, "&redisson_countdownlatch", strlen("&redisson_countdownlatch")) == 0;

    for (const char *end = word + len; word < end; word++) {
        if (*word == '%')
            at = stpcpy(at, pattern);
        else if (*word != '{' || word[1] != '%' || !has_brace || is_latch)
            *at++ = *word;
        else if (strncmp(out, "~relock_waiters:", strlen("~relock_waiters:")) == 0)
            *at++ = ':';
    }
    *at = '\0';
    free(pattern);
    return out;
}

static bool has_word(const struct rights *rights, const char *word)
{
    for (size_t i = 0; i < rights->n; i++)
        if (strcmp(rights->words[i], word) == 0)
            return true;
    return false;
}

/* Behind those that begin with the same character or with one that comes before it in `order`. */
static void insert(struct rights *rights, char *word)
{
    static const char order[] = "~&+";
    size_t at = rights->n;

    if (rights->n == RIGHTS_MOST || has_word(rights, word)) {
        free(word);
        return;
    }
    while (at > 0 && strchr(order, rights->words[at - 1][0]) > strchr(order, *word))
        at--;
    memmove(&rights->words[at + 1], &rights->words[at], (rights->n - at) * sizeof(char *));
    rights->words[at] = word;
    rights->n++;
}

bool rights_add(struct rights *rights, const char *name)
{
    const struct row *row = find_row(name);

    for (const char *word = row ? row->words : ""; *word;) {
        size_t len = strcspn(word, " ");

        /* Redis refuses further keys behind `~*`. */
        if (*word != '~' || *rights->prefix || strncmp(word, "~%* ", 4) == 0)
            insert(rights, write_word(rights->prefix, word, len));
        word += len + strspn(word + len, " ");
    }
    return row != NULL;
}

void rights_free(struct rights *rights)
{
    for (size_t i = 0; i < rights->n; i++)
        free(rights->words[i]);
    rights->n = 0;
}
