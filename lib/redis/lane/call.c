#include "redis/lane/call.h"

#include "redis/connect/explain.h"
#include "redis/lane/lane.h"
#include "redis/server/reply.h"

void relock_call_write_head(const struct relock_script *script, size_t n_args,
                            enum relock_call_form form, struct relock_buffer *buffer)
{
    if (form == RELOCK_CALL_LOADED)
        relock_call_write_load(script, buffer);
    relock_command_begin(buffer, script->n_head + 1 + n_args);
    if (form == RELOCK_CALL_WHOLE) {
        relock_command_word(buffer, "EVAL");
        relock_command_word(buffer, script->body);
        relock_command_word(buffer, "1");
    } else {
        relock_buffer_append(buffer, script->head.data, script->head.len);
    }
}

void relock_call_write_args(const struct relock_call *call, struct relock_buffer *buffer)
{
    relock_command_arg(buffer, call->key.data, call->key.len);
    for (size_t i = 0; i < call->n_args; i++)
        relock_command_arg(buffer, call->args[i].data, call->args[i].len);
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
