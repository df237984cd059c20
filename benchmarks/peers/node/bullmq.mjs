// BullMQ: finished jobs removed at once, a hundred in flight in each worker.
import { createRequire } from "node:module";
const { Queue, Worker } = createRequire(process.env.BENCH_NODE + "/package.json")("bullmq");

const url = new URL(process.env.BENCH_URL);
const connection = { host: url.hostname, port: Number(url.port), maxRetriesPerRequest: null };
const keepsResults = process.env.BENCH_JOB.startsWith("result_");
const options = { removeOnComplete: !keepsResults, removeOnFail: true, attempts: 4 };
let queue;

export const open = async () => void (queue = new Queue("bench", { connection }));
export const setup = async () => void (await queue.waitUntilReady());
export const close = () => queue.close();
export const send = (job, i, pad) => queue.add(job, { i, pad }, options);
export const sendMany = (job, indexes, pad) =>
  queue.addBulk(indexes.map((i) => ({ name: job, data: { i, pad }, opts: options })));
export const sendLater = (job, i, seconds) => queue.add(job, { i }, { ...options, delay: Math.round(seconds * 1000) });
export const sendRanked = (job, i, urgent) => queue.add(job, { i }, { ...options, priority: urgent ? 1 : 10 });

export const kept = () => queue.getCompletedCount();

export const serve = async (bodies) => {
  const lease = { lockDuration: 15000, stalledInterval: 5000 };
  const settings = { connection, concurrency: 100, ...lease };
  const worker = new Worker("bench", (job) => bodies[job.name](job.data.i), settings);
  process.on("SIGTERM", () => worker.close(true).then(() => process.exit(0)));
};
