#include "support/script_server.h"

#include "support/script_player.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define MAX_STEPS 512

struct script_server {
    char dir[32];
    char url[64];
    pthread_t thread;
    struct script_player player; /* the thread's */
    unsigned n_seen;             /* steps that script_played() has seen done; the test's */

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct {
        struct script_step steps[MAX_STEPS];
        unsigned n_steps, n_played;
        bool failed, ending;
    } guarded; /* by mutex */
};

static void *run(void *arg)
{
    struct script_server *server = arg;

    pthread_mutex_lock(&server->mutex);
    for (;;) {
        const struct script_step *step;
        bool played;

        while (!server->guarded.ending && server->guarded.n_played == server->guarded.n_steps)
            pthread_cond_wait(&server->changed, &server->mutex);
        if (server->guarded.ending)
            break;
        step = &server->guarded.steps[server->guarded.n_played];
        pthread_mutex_unlock(&server->mutex);
        played = script_player_play(&server->player, step);
        if (!played)
            script_player_close(&server->player);
        pthread_mutex_lock(&server->mutex);

        if (played)
            server->guarded.n_played++;
        else
            server->guarded.failed = server->guarded.ending = true;
        pthread_cond_broadcast(&server->changed);
    }
    pthread_mutex_unlock(&server->mutex);
    return NULL;
}

/* ---- steps --------------------------------------------------------------------------------- */

static void add(struct script_server *server, enum script_kind kind, const char *text,
                unsigned connection)
{
    struct script_step *step;

    pthread_mutex_lock(&server->mutex);
    if (server->guarded.n_steps == MAX_STEPS)
        abort();
    step = &server->guarded.steps[server->guarded.n_steps++];
    *step = (struct script_step){.kind = kind, .text = strdup(text), .connection = connection};
    if (!step->text)
        abort();
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->mutex);
}

void script_accept(struct script_server *server)
{
    add(server, SCRIPT_ACCEPT, "", 0);
}

void script_turn_to(struct script_server *server, unsigned connection)
{
    add(server, SCRIPT_TURN_TO, "", connection);
}

void script_expect(struct script_server *server, const char *words)
{
    add(server, SCRIPT_EXPECT, words, 0);
}

void script_expect_end(struct script_server *server)
{
    add(server, SCRIPT_EXPECT_END, "", 0);
}

void script_answer(struct script_server *server, const char *bytes)
{
    add(server, SCRIPT_ANSWER, bytes, 0);
}

void script_answer_bytewise(struct script_server *server, const char *bytes)
{
    add(server, SCRIPT_ANSWER_BYTEWISE, bytes, 0);
}

void script_answer_all(struct script_server *server, const char *bytes)
{
    add(server, SCRIPT_ANSWER_ALL, bytes, 0);
}

void script_close(struct script_server *server)
{
    add(server, SCRIPT_CLOSE, "", 0);
}

static void answer_text(struct script_server *server, const char *text)
{
    char bulk[160];

    snprintf(bulk, sizeof(bulk), "$%zu\r\n%s\r\n", strlen(text), text);
    script_answer(server, bulk);
}

void script_welcome_in_run(struct script_server *server, const char *run, unsigned id)
{
    char text[128];

    script_accept(server);
    script_expect(server, "HELLO");
    script_answer(server, SCRIPT_HELLO);
    script_expect(server, "INFO server");
    snprintf(text, sizeof(text), "# Server\r\nrun_id:%s\r\ntcp_port:0\r\n", run);
    answer_text(server, text);
    script_expect(server, "CLIENT INFO");
    snprintf(text, sizeof(text), "id=%u addr=/script:%u fd=8 name= db=0\n", id, id);
    answer_text(server, text);
}

void script_welcome(struct script_server *server, unsigned id)
{
    script_welcome_in_run(server, SCRIPT_FIRST_RUN, id);
}

bool script_played(struct script_server *server)
{
    bool played;

    pthread_mutex_lock(&server->mutex);
    while (!server->guarded.failed && server->guarded.n_played < server->guarded.n_steps)
        pthread_cond_wait(&server->changed, &server->mutex);
    played = !server->guarded.failed;
    server->n_seen = server->guarded.n_played;
    pthread_mutex_unlock(&server->mutex);
    return played;
}

/* ---- start and end ------------------------------------------------------------------------- */

struct script_server *script_server_start(void)
{
    struct script_server *server = calloc(1, sizeof(*server));

    if (!server)
        abort();
    strcpy(server->dir, "/tmp/relock-script-XXXXXX");
    if (!mkdtemp(server->dir))
        abort();
    snprintf(server->url, sizeof(server->url), "unix://%s/socket", server->dir);
    script_player_init(&server->player, server->url + strlen("unix://"));
    pthread_mutex_init(&server->mutex, NULL);
    pthread_cond_init(&server->changed, NULL);
    if (pthread_create(&server->thread, NULL, run, server) != 0)
        abort();
    return server;
}

const char *script_server_url(const struct script_server *server)
{
    return server->url;
}

bool script_server_end(struct script_server *server)
{
    bool seen;

    if (!server)
        return true;
    pthread_mutex_lock(&server->mutex);
    server->guarded.ending = true;
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->mutex);
    (void)eventfd_write(server->player.ending_fd, 1);
    pthread_join(server->thread, NULL);

    for (unsigned i = 0; i < server->guarded.n_steps; i++)
        free(server->guarded.steps[i].text);
    seen = server->n_seen == server->guarded.n_steps;
    script_player_deinit(&server->player);
    unlink(server->url + strlen("unix://"));
    rmdir(server->dir);
    pthread_cond_destroy(&server->changed);
    pthread_mutex_destroy(&server->mutex);
    free(server);
    return seen;
}
