/*
 * What a server may say on the connection of the subscriptions. In the scenes A, B and C the
 * program subscribes a channel, or gives it up.
 */
#include "redis/pubsub.h"
#include "stage.h"

#include <string.h>

#define PINGS STAGE_OWN

static struct stage stage;
static struct relock_pubsub *pubsub;

static const char *const names[] = {"orders", "redisson_lock__channel:{b}", ""};

static struct channel {
    struct relock_channel *channel; /* NULL: not wanted */
} channels[sizeof(names) / sizeof(*names)];

static void on_channel(void *arg, enum relock_channel_event event)
{
    struct channel *channel = arg;

    FUZZ_CHECK(channel->channel); /* nothing is told of what was given up */
    FUZZ_CHECK(event == RELOCK_CHANNEL_SUBSCRIBED || event == RELOCK_CHANNEL_MESSAGE ||
               event == RELOCK_CHANNEL_DOWN);
}

static void change(struct channel *channel)
{
    const char *name = names[channel - channels];

    if (channel->channel) {
        relock_pubsub_unsubscribe(pubsub, channel->channel);
        channel->channel = NULL;
        return;
    }
    channel->channel = relock_pubsub_subscribe(pubsub, name, strlen(name), on_channel, channel);
    FUZZ_CHECK(channel->channel);
}

static void act(char letter)
{
    size_t i = (size_t)(letter - 'A');

    if (letter >= 'A' && i < sizeof(names) / sizeof(*names))
        change(&channels[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stage_begin(&stage, data, size);
    memset(channels, 0, sizeof(channels));
    FUZZ_CHECK(relock_pubsub_new(stage.loop, &stage.server,
                                 stage.choice & PINGS ? STAGE_TIMEOUT_MS / 3 : 0,
                                 &pubsub) == RELOCK_OK);
    change(&channels[0]);
    stage_perform(&stage, act);
    pubsub = relock_pubsub_free(pubsub);
    stage_end(&stage);
    return 0;
}
