/* For node-redlock and its successors, which have the same methods. */
"use strict";
const { once } = require("events");
const { Redis } = require("ioredis");

/* A server that is down is down: each command to it fails at once. */
function open(url) {
    const redis = new Redis(url, {
        connectionName: "player",
        enableOfflineQueue: false,
        maxRetriesPerRequest: 0,
        retryStrategy: () => 50,
    });

    redis.on("error", () => {});
    return redis;
}

async function unless(ExecutionError, work, isRefused) {
    try {
        return (await work()) ?? true;
    } catch (error) {
        if (error instanceof ExecutionError || isRefused?.(error)) return null;
        throw error;
    }
}

const isOver = (error) => /already-expired/.test(error.message);

exports.like = (Redlock, ExecutionError) => async (urls) => {
    const taken = (work, isRefused) => unless(ExecutionError, work, isRefused);
    const servers = urls.map(open);
    /*
     * With tries of its own, redlock gives what it got of the servers back only after the last, and
     * counts it against itself until then: two that share the servers wait for each other for a
     * lease.
     */
    const redlock = new Redlock(servers, { retryCount: 0 });

    redlock.on("error", () => {}); // of single servers
    await Promise.all(servers.map((redis) => once(redis, "ready")));
    return {
        redis: servers[0],
        take: (name, lease_ms) => taken(() => redlock.acquire([name], lease_ms)),
        release: (lock) => taken(() => lock.release(), isOver),
        extend: (lock, lease_ms) => taken(() => lock.extend(lease_ms), isOver),
        token: (lock) => lock.value,
    };
};
