// Durable queue, persistent tasks, prefetch 1: a worker that is busy gets nothing, the other one does the rest.
'use strict';

const assert = require('node:assert');
const { run } = require('./program');

const TASKS = Array.from({ length: 10 }, (_, number) => `task ${number}`);

run(async ({ connect, prefix }) => {
  const queue = `${prefix}-tasks`;
  const done = { busy: [], free: [] };
  let finish;
  const finished = new Promise((resolve) => (finish = resolve));

  async function worker(name) {
    const channel = await (await connect()).createChannel();
    await channel.assertQueue(queue, { durable: true });
    await channel.prefetch(1);
    await channel.consume(queue, (message) => {
      if (message === null) return; // the queue was deleted at the end
      done[name].push(message.content.toString());
      if (name === 'free') channel.ack(message);
      if (done.busy.length + done.free.length === TASKS.length) finish();
    });
    return channel;
  }

  await worker('busy');
  const free = await worker('free');
  const boss = await (await connect()).createChannel();
  for (const task of TASKS) boss.sendToQueue(queue, Buffer.from(task), { persistent: true });
  await finished;
  assert.strictEqual(done.busy.length, 1);
  assert.deepStrictEqual([...done.busy, ...done.free].sort(), TASKS);
  await free.deleteQueue(queue);
});
