#include "redis/sent_command.h"

#include "redis/conn_id.h"

#include <stdlib.h>
#include <string.h>

struct relock_sent_command *relock_sent_command_new(const struct relock_call *call,
                                                    enum relock_next_reply first,
                                                    struct relock_buffer *out)
{
    struct relock_sent_command *command = NULL;
    size_t from;

    relock_call_write_head(call->script, call->n_args, RELOCK_CALL_BY_HASH, out);
    from = out->len;
    relock_call_write_args(call, out);
    if (!out->failed)
        command = malloc(sizeof(*command) + out->len - from);
    if (!command)
        return NULL;
    *command = (struct relock_sent_command){.next_reply = first,
                                            .n_replies = first == RELOCK_NEXT_CALL ? 1 : 2,
                                            .script = call->script,
                                            .flight = call->flight,
                                            .n_args = call->n_args,
                                            .len = out->len - from};
    memcpy(command->args, out->data + from, command->len);
    return command;
}

bool relock_sent_command_repeat(struct relock_sent_command *command, enum relock_call_form form,
                                struct relock_buffer *out)
{
    size_t from = out->len;

    command->form = form;
    command->next_reply = form == RELOCK_CALL_LOADED ? RELOCK_NEXT_LOAD : RELOCK_NEXT_CALL;
    if (command->asks) {
        command->next_reply = RELOCK_NEXT_ASKING;
        relock_command_words(out, "ASKING");
    }
    command->n_replies = command->next_reply == RELOCK_NEXT_CALL ? 1 : 2;
    relock_call_write_head(command->script, command->n_args, form, out);
    relock_buffer_append(out, command->args, command->len);
    if (out->failed) {
        relock_buffer_take_back(out, from);
        return false;
    }
    return true;
}

bool relock_sent_command_take(struct relock_sent_command *command,
                              const struct relock_server *server, const struct redisReply *reply)
{
    switch (command->next_reply) {
    case RELOCK_NEXT_CALL:
        return true;
    case RELOCK_NEXT_KILL:
        command->is_kill_refused = !relock_conn_id_is_killed(server, reply);
        break;
    case RELOCK_NEXT_LOAD: /* the reply to the command tells whether the script is there now */
        command->cannot_load = relock_call_cannot_load(server, reply);
        break;
    case RELOCK_NEXT_ASKING:
        break;
    }
    command->next_reply = RELOCK_NEXT_CALL;
    return false;
}
