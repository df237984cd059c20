// Graphile Worker, as its page on performance has it: a local queue, and completion in batches.
import { createRequire } from "node:module";
const load = createRequire(process.env.BENCH_NODE + "/package.json");
const { run, makeWorkerUtils, Logger } = load("graphile-worker");

const connectionString = process.env.BENCH_URL;
const logger = new Logger(() => () => {});
const options = { maxAttempts: 4 };
let utils;

export const open = async () => void (utils = await makeWorkerUtils({ connectionString, logger }));
export const setup = () => utils.migrate();
export const close = () => utils.release();
export const send = (job, i, pad) => utils.addJob(job, { i, pad }, options);
export const sendMany = (job, indexes, pad) =>
  utils.addJobs(indexes.map((i) => ({ identifier: job, payload: { i, pad }, ...options })));
export const sendLater = (job, i, seconds) =>
  utils.addJob(job, { i }, { ...options, runAt: new Date(Date.now() + seconds * 1000) });
export const sendRanked = (job, i, urgent) => utils.addJob(job, { i }, { ...options, priority: urgent ? 0 : 10 });

export const serve = async (bodies, job) => {
  const concurrentJobs = job.startsWith("pause") ? 100 : 24;
  const batches = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
  const runner = await run({
    logger,
    taskList: Object.fromEntries(Object.entries(bodies).map(([name, body]) => [name, ({ i }) => body(i)])),
    noHandleSignals: true,
    parsedCronItems: [],
    preset: { worker: { connectionString, concurrentJobs, maxPoolSize: 25, ...batches } },
  });
  process.on("SIGTERM", () => runner.stop().catch(() => {}).then(() => process.exit(0)));
};
