/* Messages of a server on the subscriber connection. In scenes A to D the program subscribes to
 * a channel or leaves it. A and D are listeners of one channel. */
#include "redis/io/io.h"
#include "redis/io/private.h"
#include "stage.h"

#include <string.h>

#define PINGS STAGE_OWN

static struct stage stage;
static struct relock_pubsub *pubsub;

static const char *const names[] = {"orders", "redisson_lock__channel:{b}", "", "orders"};

static struct user {
    bool listens;
    struct relock_subscriber *subscriber;
} users[sizeof(names) / sizeof(*names)];

static void on_channel(void *arg, enum relock_channel_event event, const char *text, size_t len)
{
    struct user *user = arg;

    FUZZ_CHECK(user->listens); /* a listener that has left gets no event */
    if (event == RELOCK_CHANNEL_MESSAGE)
        FUZZ_CHECK(text || len == 0);
    else
        FUZZ_CHECK(event == RELOCK_CHANNEL_SUBSCRIBED || event == RELOCK_CHANNEL_REFUSED ||
                   event == RELOCK_CHANNEL_DOWN);
}

static void change(struct user *user)
{
    const char *name = names[user - users];

    user->listens = !user->listens;
    if (!user->listens) {
        relock_pubsub_unsubscribe(user->subscriber);
        return;
    }
    user->subscriber = relock_pubsub_subscribe(pubsub, name, strlen(name), on_channel, user);
    FUZZ_CHECK(user->subscriber);
}

static void act(char letter)
{
    size_t i = (size_t)(letter - 'A');

    if (letter >= 'A' && i < sizeof(names) / sizeof(*names))
        change(&users[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stage_begin(&stage, data, size);
    memset(users, 0, sizeof(users));
    FUZZ_CHECK(relock_pubsub_new(stage.loop, &stage.server,
                                 stage.choice & PINGS ? STAGE_TIMEOUT_MS / 3 : 0,
                                 &pubsub) == RELOCK_OK);
    change(&users[0]);
    stage_perform(&stage, act);
    pubsub = relock_pubsub_free(pubsub);
    stage_end(&stage);
    return 0;
}
