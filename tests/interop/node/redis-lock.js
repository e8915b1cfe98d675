"use strict";
const { createClient } = require("redis");
const redisLock = require("redis-lock");

/* A client whose first refusal is its last answer: the library has no limit for its attempts. */
function whichTriesOnce(redis, onRefused) {
    return {
        v4: null, // asked for by `in`
        del: (key) => redis.del(key),
        async set(...words) {
            const reply = await redis.set(...words);

            if (reply !== null) return reply;
            onRefused();
            return new Promise(() => {});
        },
    };
}

/* Its release says nothing about a loss. */
exports.connect = async ([url]) => {
    const redis = await createClient({ url, name: "player" }).connect();

    return {
        redis,
        take(name, lease_ms, waits) {
            if (waits) return redisLock(redis)(name, lease_ms);
            return new Promise((resolve) => {
                const once = whichTriesOnce(redis, () => resolve(null));

                redisLock(once)(name, lease_ms).then(resolve);
            });
        },
        async release(done) {
            await done();
            return true;
        },
    };
};
