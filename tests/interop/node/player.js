/*
 * A library for Node that does what it is told: ../duo.h has the orders. Tasks stand for threads.
 * locks.js stands for the library, and exports connect(urls): each of the other files here is one
 * of these.
 *
 *     player.js URL...
 */
"use strict";
const readline = require("readline");
const { setTimeout: sleep } = require("timers/promises");
const { connect } = require("./locks.js");

const RETRY_MS = 10;

const tails = new Map(); // the last order of each thread
const held = new Map(); // by thread and name
let library;

async function take(key, name, lease_ms, waits) {
    const lock = await library.take(name, Number(lease_ms), waits);

    if (lock) held.set(key, lock);
    return Boolean(lock);
}

async function takeInTheEnd(key, name, lease_ms) {
    while (!(await take(key, name, lease_ms, true))) await sleep(RETRY_MS * (0.5 + Math.random()));
}

async function owned(key, work) {
    return (await work(held.get(key))) ? "ok" : "not-owner";
}

const verbs = {
    async lock(key, name, lease_ms) {
        await takeInTheEnd(key, name, lease_ms);
        return "ok";
    },

    async trylock(key, name, lease_ms) {
        return (await take(key, name, lease_ms, false)) ? "yes" : "no";
    },

    async unlock(key) {
        return owned(key, (lock) => library.release(lock));
    },

    async extend(key, name, lease_ms) {
        return owned(key, async (lock) => {
            const longer = await library.extend(lock, Number(lease_ms));

            if (longer) held.set(key, longer);
            return longer;
        });
    },

    async token(key) {
        return library.token(held.get(key));
    },

    async count(key, name, counter, times) {
        for (let i = 0; i < Number(times); i++) {
            await takeInTheEnd(key, name, 60000);
            await library.redis.set(counter, String(Number(await library.redis.get(counter)) + 1));
            await library.release(held.get(key));
        }
        return "ok";
    },
};

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

    library = await connect(process.argv.slice(2));
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
