#include "logins.h"

#include "redis/server/command.h"

#include <hiredis/hiredis.h>
#include <stdatomic.h>
#include <stdio.h>

static char user[] = "u", password[] = "hidden", name[] = LOGIN_NAME, label[] = LOGIN_LABEL;

struct relock_server server;
struct relock_login login;
struct log *lines;
static struct relock_log to_lines;
static struct relock_counts counts;
static struct relock_buffer commands;

struct relock_server logins_plain_server(void)
{
    return (struct relock_server){.label = label, .log = &to_lines, .counts = &counts};
}

int logins_begin(void **state)
{
    (void)state;
    lines = log_new();
    to_lines = (struct relock_log){.level = RELOCK_LOG_DEBUG, .sink = log_write, .arg = lines};
    atomic_store(&counts.warned, 0);
    server = logins_plain_server();
    server.url = (struct relock_url){.user = user, .password = password, .db = 3};
    server.name = name;
    return 0;
}

int logins_end(void **state)
{
    (void)state;
    relock_login_end(&login);
    relock_buffer_deinit(&commands);
    log_free(lines);
    return 0;
}

void begins(void)
{
    relock_buffer_clear(&commands);
    relock_login_begin(&login, &server, &commands);
    relock_buffer_clear(&commands);
}

const char *asks(void)
{
    static char text[128];

    assert_true(commands.len < sizeof(text));
    memcpy(text, commands.data, commands.len);
    text[commands.len] = '\0';
    relock_buffer_clear(&commands);
    return text;
}

int take(const char *bytes)
{
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;
    int r;

    assert_non_null(reader);
    assert_int_equal(redisReaderFeed(reader, bytes, strlen(bytes)), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    assert_non_null(reply);
    r = relock_login_take(&login, reply, &commands);
    freeReplyObject(reply);
    redisReaderFree(reader);
    return r;
}

int take_info(const char *info)
{
    char bytes[256];

    snprintf(bytes, sizeof(bytes), "$%zu\r\n%s\r\n", strlen(info), info);
    return take(bytes);
}

void take_more(const char *bytes, ...)
{
    va_list more;

    va_start(more, bytes);
    for (; bytes; bytes = va_arg(more, const char *))
        assert_int_equal(take(bytes), RELOCK_AGAIN);
    va_end(more);
}

void begins_plainly(void)
{
    server = logins_plain_server();
    begins();
    take_more(MASTER, NULL);
}
