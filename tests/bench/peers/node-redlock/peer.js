/*
 * node-redlock over ioredis, measured as ../README.md says. Tasks stand for threads.
 *
 *     peer.js URL SECONDS
 *     peer.js URL waiter SECONDS
 */
"use strict";
const { spawn } = require("child_process");
const { once } = require("events");
const readline = require("readline");
const { setTimeout: sleep } = require("timers/promises");
const { Redis } = require("ioredis");
const { default: Redlock } = require("redlock");

const LEASE_MS = 30000;
const PASSES = 100;
const WAITERS = 32;
const WATCHED_MS = 10000;

const url = process.argv[2];
const ms = 1000 * Number(process.argv.at(-1));
const redis = new Redis(url, { enableAutoPipelining: true });
const redlock = new Redlock([redis], { retryCount: -1 }); // all else as it is unless told

const now_ns = () => process.hrtime.bigint(); // CLOCK_MONOTONIC: the same in every process

function lock(name) {
    return redlock.acquire(["peer:node-redlock:" + name], LEASE_MS);
}

function medianUs(ns) {
    ns.sort((a, b) => a - b);
    return ns[Math.floor(ns.length / 2)] / 1000;
}

async function uncontendedUs() {
    const took = [];
    const end = performance.now() + ms;
    while (performance.now() < end) {
        const begin = now_ns();
        await (await lock("uncontended")).release();
        took.push(Number(now_ns() - begin));
    }
    return medianUs(took);
}

/* One task per name takes and gives that lock; the pairs per second of each. */
async function crowd(names, ms) {
    const counts = names.map(() => 0);
    let stop = false;

    const tasks = names.map(async (name, i) => {
        while (!stop) {
            await (await lock(name)).release();
            counts[i]++;
        }
    });
    await sleep(ms / 2);
    const before = [...counts];
    const begin = performance.now();
    await sleep(ms);
    const took_s = (performance.now() - begin) / 1000;
    const rates = counts.map((count, i) => (count - before[i]) / took_s);
    stop = true;
    await Promise.all(tasks);
    return rates;
}

const ownLocks = Array.from({ length: 16 }, (_, i) => `own:${i}`);

function warmUp() {
    return crowd(ownLocks, 2 * ms);
}

/* The other process of passingUs(). */
async function waitForLock() {
    await warmUp();
    for await (const _ of readline.createInterface({ input: process.stdin })) {
        const held = await lock("passing");
        const taken = now_ns();
        await held.release();
        console.log(String(taken));
    }
}

async function passingUs() {
    const waiter = spawn(process.execPath, [__filename, url, "waiter", String(ms / 1000)], {
        stdio: ["pipe", "pipe", "inherit"],
    });
    const answers = readline.createInterface({ input: waiter.stdout })[Symbol.asyncIterator]();

    async function onePass(pause_ms) {
        const held = await lock("passing");
        waiter.stdin.write("\n");
        await sleep(pause_ms);
        const given = now_ns();
        await held.release();
        return Number(BigInt((await answers.next()).value) - given);
    }

    await onePass(1000); // the other process starts and warms up
    const end = performance.now() + ms;
    while (performance.now() < end) await onePass(5);
    const took = [];
    for (let i = 0; i < PASSES; i++) took.push(await onePass(10 + ((i * 37) % 290)));
    waiter.stdin.end();
    const [code] = await once(waiter, "exit");
    if (code !== 0) throw new Error("the waiter failed");
    return medianUs(took);
}

async function processed() {
    const stats = await redis.info("stats");
    return Number(/total_commands_processed:(\d+)/.exec(stats)[1]);
}

async function commandsPerS() {
    const held = await lock("waiters");
    const tasks = Array.from({ length: WAITERS }, async () => (await lock("waiters")).release());
    await sleep(2000);
    const before = await processed();
    const begin = performance.now();
    await sleep(WATCHED_MS);
    const count = (await processed()) - before - 1;
    const rate = count / ((performance.now() - begin) / 1000);
    await held.release();
    await Promise.all(tasks);
    return rate;
}

function sum(rates) {
    return rates.reduce((a, b) => a + b);
}

async function measure() {
    const versions = require("./package.json").dependencies;
    const commands = await commandsPerS();
    const passing = await passingUs();
    await warmUp();
    const uncontended = await uncontendedUs();
    const own = await crowd(ownLocks, ms);
    const oneLock = await crowd(Array(8).fill("one"), ms);
    const result = {
        peer: "node-redlock",
        version: `${versions.redlock}, ioredis ${versions.ioredis}`,
        rows: {
            uncontended_p50_us: uncontended,
            own_locks_16_pairs_per_s: sum(own),
            one_lock_8_acquisitions_per_s: sum(oneLock),
            one_lock_8_least_percent: (100 * Math.min(...oneLock)) / (sum(oneLock) || 1),
            passing_p50_us: passing,
            commands_per_s_32_waiters: commands,
        },
    };
    console.log(JSON.stringify(result));
}

async function main() {
    await (process.argv[3] === "waiter" ? waitForLock() : measure());
    redis.disconnect();
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
