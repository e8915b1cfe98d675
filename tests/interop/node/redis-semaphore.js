"use strict";
const { once } = require("events");
const { Redis } = require("ioredis");
const { Mutex } = require("redis-semaphore");

/* Its release says nothing about a loss. */
exports.connect = async ([url]) => {
    const redis = new Redis(url, { connectionName: "player" });

    await once(redis, "ready");
    return {
        redis,
        async take(name, lease_ms) {
            const mutex = new Mutex(redis, name, {
                acquireAttemptsLimit: 1,
                lockTimeout: lease_ms,
                refreshInterval: 0,
            });

            return (await mutex.tryAcquire()) ? mutex : null;
        },
        async release(mutex) {
            await mutex.release();
            return true;
        },
    };
};
