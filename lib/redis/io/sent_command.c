#include "redis/io/sent_command.h"

#include "redis/connect/conn_id.h"
#include "redis/server/reply.h"

#include <stdlib.h>
#include <string.h>

static void write_caching(struct relock_buffer *out)
{
    relock_command_words(out, "CLIENT", "CACHING", "YES");
}

/* Which reply comes behind those to KILL and LOAD. */
static enum relock_next_reply caching_or_call(const struct relock_sent_command *command)
{
    return command->is_tracked ? RELOCK_NEXT_CACHING : RELOCK_NEXT_CALL;
}

struct relock_sent_command *relock_sent_command_new(const struct relock_call *call, bool is_fenced,
                                                    bool is_tracked, struct relock_buffer *out)
{
    struct relock_sent_command *command = NULL;
    size_t from;

    if (is_tracked)
        write_caching(out);
    relock_call_write_head(call->script, call->n_args, RELOCK_CALL_BY_HASH, out);
    from = out->len;
    relock_call_write_args(call, out);
    if (!out->failed)
        command = malloc(sizeof(*command) + out->len - from);
    if (!command)
        return NULL;
    *command = (struct relock_sent_command){.n_replies = 1U + is_fenced + is_tracked,
                                            .is_tracked = is_tracked,
                                            .forms = call->script->forms,
                                            .script = call->script,
                                            .flight = call->flight,
                                            .tracker = call->tracker,
                                            .answered_by = call->answered_by,
                                            .n_args = call->n_args,
                                            .len = out->len - from};
    command->next_reply = is_fenced ? RELOCK_NEXT_KILL : caching_or_call(command);
    memcpy(command->args, out->data + from, command->len);
    return command;
}

struct relock_sent_command *relock_sent_command_appended(struct relock_buffer *out, size_t from,
                                                         unsigned forms)
{
    struct relock_sent_command *command = out->failed ? NULL : calloc(1, sizeof(*command));

    if (!command) {
        relock_buffer_take_back(out, from);
        return NULL;
    }
    command->n_replies = 1;
    command->forms = forms;
    return command;
}

bool relock_sent_command_repeat(struct relock_sent_command *command, enum relock_call_form form,
                                bool may_track, struct relock_buffer *out)
{
    bool loads = form == RELOCK_CALL_LOADED;
    size_t from = out->len;

    command->form = form;
    command->is_tracked = may_track && !command->asks;
    command->n_replies = 1U + loads + command->asks + command->is_tracked;
    command->next_reply = loads ? RELOCK_NEXT_LOAD : caching_or_call(command);
    if (command->asks) {
        command->next_reply = RELOCK_NEXT_ASKING;
        relock_command_words(out, "ASKING");
    }
    if (loads)
        relock_call_write_load(command->script, out);
    if (command->is_tracked)
        write_caching(out);
    relock_call_write_head(command->script, command->n_args, loads ? RELOCK_CALL_BY_HASH : form,
                           out);
    relock_buffer_append(out, command->args, command->len);
    if (out->failed) {
        relock_buffer_take_back(out, from);
        return false;
    }
    return true;
}

bool relock_sent_command_fits(const struct relock_sent_command *command,
                              const struct redisReply *reply, bool may_doubt)
{
    bool doubts = may_doubt && command->script;

    switch (command->next_reply) {
    case RELOCK_NEXT_CALL:
        break;
    case RELOCK_NEXT_KILL:
        return relock_reply_fits(reply, RELOCK_CONN_ID_KILL_FORMS);
    case RELOCK_NEXT_LOAD:
    case RELOCK_NEXT_ASKING:
    case RELOCK_NEXT_CACHING:
        return relock_reply_fits(reply, RELOCK_REPLY_TEXT);
    }
    return relock_reply_fits(reply, command->forms | (doubts ? RELOCK_REPLY_NO_ERR : 0));
}

bool relock_sent_command_take(struct relock_sent_command *command,
                              const struct relock_server *server, const struct redisReply *reply)
{
    switch (command->next_reply) {
    case RELOCK_NEXT_CALL:
        return true;
    case RELOCK_NEXT_KILL:
        command->is_kill_refused = !relock_conn_id_is_killed(server, reply);
        command->next_reply = caching_or_call(command);
        break;
    case RELOCK_NEXT_LOAD: /* the reply to the command tells whether the script is there now */
        command->cannot_load = relock_call_cannot_load(server, reply);
        command->next_reply = caching_or_call(command);
        break;
    case RELOCK_NEXT_ASKING:
    case RELOCK_NEXT_CACHING: /* the pipeline looks at it */
        command->next_reply = RELOCK_NEXT_CALL;
        break;
    }
    return false;
}
