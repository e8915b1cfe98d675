"use strict";
const { createClient } = require("redis");
const { lock, tryLock } = require("simple-redis-mutex");

/* Its release says nothing about a loss. A waiter sleeps for as long as the lease that it asks for,
 * unless there is a message. */
exports.connect = async ([url]) => {
    const redis = await createClient({ url, name: "player" }).connect();

    return {
        redis,
        async take(name, lease_ms, waits) {
            if (waits) return lock(redis, name, { timeout: lease_ms, pollingInterval: lease_ms });
            const [has, release] = await tryLock(redis, name, { timeout: lease_ms });

            return has ? release : null;
        },
        async release(release) {
            await release();
            return true;
        },
    };
};
