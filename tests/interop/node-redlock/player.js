/*
 * node-redlock over ioredis that does what it is told: ../duo.h has the orders. Tasks stand for
 * threads.
 *
 *     player.js URL...
 */
"use strict";
const { once } = require("events");
const readline = require("readline");
const { setTimeout: sleep } = require("timers/promises");
const { Redis } = require("ioredis");
const { default: Redlock, ExecutionError } = require("redlock");

const RETRY_MS = 10;

/* A server that is down is down: each command to it fails at once. */
function connect(url) {
    const redis = new Redis(url, {
        connectionName: "player",
        enableOfflineQueue: false,
        maxRetriesPerRequest: 0,
        retryStrategy: () => 50,
    });

    redis.on("error", () => {});
    return redis;
}

const servers = process.argv.slice(2).map(connect);
const redlock = new Redlock(servers, { retryCount: 0 });
const tails = new Map(); // the last order of each thread
const locks = new Map(); // by thread and name

redlock.on("error", () => {}); // of single servers

async function take(key, name, lease_ms) {
    try {
        locks.set(key, await redlock.acquire([name], Number(lease_ms)));
    } catch (error) {
        if (error instanceof ExecutionError) return false;
        throw error;
    }
    return true;
}

/*
 * With tries of its own, redlock gives what it got of the servers back only after the last, and
 * counts it against itself until then: two that share the servers wait for each other for a lease.
 */
async function takeInTheEnd(key, name, lease_ms) {
    while (!(await take(key, name, lease_ms))) await sleep(RETRY_MS * (0.5 + Math.random()));
}

const verbs = {
    async lock(key, name, lease_ms) {
        await takeInTheEnd(key, name, lease_ms);
        return "ok";
    },

    async trylock(key, name, lease_ms) {
        return (await take(key, name, lease_ms)) ? "yes" : "no";
    },

    async unlock(key) {
        return owned(() => locks.get(key).release());
    },

    async extend(key, name, lease_ms) {
        return owned(async () => {
            locks.set(key, await locks.get(key).extend(Number(lease_ms)));
        });
    },

    async token(key) {
        return locks.get(key).value;
    },

    async count(key, name, counter, times) {
        for (let i = 0; i < Number(times); i++) {
            await takeInTheEnd(key, name, 60000);
            await servers[0].set(counter, Number(await servers[0].get(counter)) + 1);
            await locks.get(key).release();
        }
        return "ok";
    },
};

async function owned(work) {
    try {
        await work();
    } catch (error) {
        if (error instanceof ExecutionError || /already-expired/.test(error.message))
            return "not-owner";
        throw error;
    }
    return "ok";
}

async function obey(number, thread, words) {
    let answer;

    try {
        answer = await verbs[words[0]](`${thread} ${words[1]}`, ...words.slice(1));
    } catch (error) {
        answer = `failed ${error}`.replaceAll("\n", " ");
    }
    console.log(`${number} ${answer}`);
}

async function main() {
    let number = 0;

    await Promise.all(servers.map((redis) => once(redis, "ready")));
    console.log("ready");
    for await (const line of readline.createInterface({ input: process.stdin })) {
        const [thread, ...words] = line.split(" ");
        const order = ++number;
        const tail = tails.get(thread) ?? Promise.resolve();

        tails.set(
            thread,
            tail.then(() => obey(order, thread, words)),
        );
    }
    process.exit();
}

main();
