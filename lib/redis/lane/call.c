#include "redis/lane/call.h"

#include "redis/connect/explain.h"
#include "redis/lane/lane.h"
#include "redis/server/reply.h"

/* The end of the head of a script, which says how many keys follow. */
#define ONE_KEY "$1\r\n1\r\n"

/* EVALSHA, the sha1 and the number of keys; or the name of a command. */
static void write_by_hash(const struct relock_script *script, size_t n_keys,
                          struct relock_buffer *buffer)
{
    bool is_script = *script->body != '\0';

    if (n_keys == 1 || !is_script) {
        relock_buffer_append(buffer, script->head.data, script->head.len);
        return;
    }
    relock_buffer_append(buffer, script->head.data, script->head.len - strlen(ONE_KEY));
    relock_command_number(buffer, n_keys);
}

void relock_call_write_head(const struct relock_script *script, size_t n_keys, size_t n_args,
                            enum relock_call_form form, struct relock_buffer *buffer)
{
    if (form == RELOCK_CALL_LOADED)
        relock_call_write_load(script, buffer);
    relock_command_begin(buffer, script->n_head + n_keys + n_args);
    if (form == RELOCK_CALL_WHOLE) {
        relock_command_word(buffer, "EVAL");
        relock_command_word(buffer, script->body);
        relock_command_number(buffer, n_keys);
    } else {
        write_by_hash(script, n_keys, buffer);
    }
}

void relock_call_write_args(const struct relock_call *call, bool is_sharded,
                            struct relock_buffer *buffer)
{
    relock_command_arg(buffer, call->key.data, call->key.len);
    for (size_t i = 0; i < call->n_more; i++)
        relock_command_arg(buffer, call->more[i].data, call->more[i].len);
    for (size_t i = 0; i < call->n_args; i++) {
        if (i + 1 == call->publish_arg)
            relock_command_word(buffer, is_sharded ? "spublish" : "publish");
        else
            relock_command_arg(buffer, call->args[i].data, call->args[i].len);
    }
}

void relock_call_write_load(const struct relock_script *script, struct relock_buffer *buffer)
{
    relock_command_words(buffer, "SCRIPT", "LOAD", script->body);
}

void relock_call_end(struct relock_call *call)
{
    call->reply = relock_reply_free(call->reply);
    relock_orphan_drop(call->orphan);
    call->orphan = NULL;
}

bool relock_call_next_form(const struct relock_script *script, bool asks,
                           enum relock_call_form *form)
{
    if (*form == RELOCK_CALL_WHOLE || *script->body == '\0')
        return false;
    *form = *form == RELOCK_CALL_LOADED || asks ? RELOCK_CALL_WHOLE : RELOCK_CALL_LOADED;
    return true;
}

void relock_call_check_loaded(const struct relock_server *server, const struct redisReply *loaded)
{
    const char *error = relock_reply_error(loaded);

    if (error && relock_explain_is_missing(error))
        relock_explain_extra(server, RELOCK_EXTRA_LOAD, error);
}
