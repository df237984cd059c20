// Agent for Node peers, with the orders of agent.py: node agent.mjs ADAPTER '{"do": "send", …}' prints one JSON value.
// Its probe makes system calls where Python's makes none: a few microseconds a job.
import fs from "node:fs";

const CHUNK = 1000;
const AT_ONCE = 100;
const TICK = 0.005;
const [, agent, adapter, text] = process.argv;
const order = JSON.parse(text);
const peer = await import(`./${adapter}.mjs`);

const fd = fs.openSync(process.env.BENCH_PROBE, "r+");
const slots = fs.fstatSync(fd).size / 25;
const word = Buffer.alloc(8);
const count = Buffer.alloc(1);

const stamp = (region, i, time = process.hrtime.bigint()) => {
  word.writeBigInt64LE(time);
  fs.writeSync(fd, word, 0, 8, (region * slots + i) * 8);
};
const sent = (i, time) => stamp(0, i, time);
const start = (i) => {
  stamp(1, i);
  fs.readSync(fd, count, 0, 1, 24 * slots + i);
  count[0] += 1;
  fs.writeSync(fd, count, 0, 1, 24 * slots + i);
  return count[0];
};
const finish = (i) => {
  fs.readSync(fd, word, 0, 8, (2 * slots + i) * 8);
  if (word.readBigInt64LE() === 0n) stamp(2, i);
};

const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));
const now = () => performance.now() / 1000;

// The same as in bodies.py.
export const bodies = {
  noop_async: async (i) => void start(i),
  records_async: async (i) => void start(i),
  result_async: async (i) => {
    start(i);
    return { number: i, state: "sent", parts: [1, 2, 3], complete: true };
  },
  cpu_async: async (i) => {
    start(i);
    for (const until = now() + 0.001; now() < until; );
  },
  pause_async: async (i) => {
    start(i);
    await sleep(0.005);
    finish(i);
  },
  flaky_async: async (i) => {
    if (start(i) === 1 && i % 5 === 0) throw new Error("as meant");
    finish(i);
  },
};

const numbers = (from, length) => Array.from({ length }, (_, k) => order.first + from + k);

function* steps(size = 1) {
  const until = now() + order.seconds;
  for (let first = 0; first < order.jobs && now() <= until; first += size) {
    yield numbers(first, Math.min(size, order.jobs - first));
  }
}

const each = async (send) => {
  let done = 0;
  for (const [i] of steps()) {
    await send(i);
    done += 1;
  }
  return done;
};

const inChunks = async (size, send) => {
  let done = 0;
  for (const indexes of steps(size)) {
    await send(indexes);
    done += indexes.length;
  }
  return done;
};

const burst = async (indexes) => {
  if (indexes.length > 1 && peer.sendMany) {
    const time = process.hrtime.bigint();
    for (const i of indexes) sent(i, time);
    await peer.sendMany(order.job, indexes, "");
  } else {
    for (const i of indexes) {
      sent(i);
      await peer.send(order.job, i, "");
    }
  }
};

const ways = {
  one: () => each((i) => peer.send(order.job, i, order.pad)),
  many: () => inChunks(CHUNK, (indexes) => peer.sendMany(order.job, indexes, order.pad)),
  gathered: () => inChunks(AT_ONCE, (all) => Promise.all(all.map((i) => peer.send(order.job, i, order.pad)))),
  later: () =>
    each((i) => {
      const seconds = order.span * (1 + i / order.jobs);
      sent(i, process.hrtime.bigint() + BigInt(Math.round(seconds * 1e9)));
      return peer.sendLater(order.job, i, seconds);
    }),
  ranked: () => each((i) => peer.sendRanked(order.job, i, i >= Math.floor((order.jobs * 2) / 3))),
  spaced: async () => {
    for (let i = order.first; i < order.first + order.jobs; i++) {
      sent(i);
      await peer.send(order.job, i, "");
      await sleep(order.gap);
    }
    return order.jobs;
  },
  steady: async () => {
    let done = 0;
    for (const begun = now(); done < order.jobs && now() - begun <= order.seconds; ) {
      const due = Math.min(order.jobs, 1 + Math.floor((now() - begun) * order.rate));
      await burst(numbers(done, due - done));
      done = due;
      await sleep(TICK);
    }
    return done;
  },
};

const obey = async () => {
  await peer.open();
  try {
    if (order.setup) await peer.setup();
    if (order.do === "worker") {
      const serve = JSON.stringify({ do: "serve", job: order.job });
      return Array(order.processes).fill([process.execPath, agent, adapter, serve]);
    }
    if (order.do === "count") return (await peer.kept?.()) ?? null;
    const begun = now();
    const cpu = process.cpuUsage();
    const total = await ways[order.way]();
    const used = process.cpuUsage(cpu);
    return { sent: total, seconds: now() - begun, cpu: (used.user + used.system) / 1e6 };
  } finally {
    await peer.close();
  }
};

if (order.do === "serve") await peer.serve(bodies, order.job);
else console.log(JSON.stringify(await obey()));
