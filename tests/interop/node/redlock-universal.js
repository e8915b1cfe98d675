"use strict";
const { once } = require("events");
const { Redis } = require("ioredis");
const { createLock, IoredisAdapter } = require("redlock-universal");

exports.connect = async ([url]) => {
    const redis = new Redis(url, { connectionName: "player" });
    const adapter = new IoredisAdapter(redis);

    await once(redis, "ready");
    return {
        redis,
        async take(name, lease_ms) {
            const lock = createLock({ adapter, key: name, ttl: lease_ms, retryAttempts: 0 });

            try {
                return { lock, handle: await lock.acquire() };
            } catch (error) {
                if (error.name === "LockAcquisitionError") return null;
                throw error;
            }
        },
        release: ({ lock, handle }) => lock.release(handle),
    };
};
