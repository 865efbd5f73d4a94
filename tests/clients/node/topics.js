'use strict';

const assert = require('node:assert');
const { run, receive } = require('./program');

const KEYS = ['kern.critical', 'kern.info', 'cron.critical', 'cron.info', 'gate.left.critical'];
const EXPECTED = {
  '#': KEYS,
  'kern.*': ['kern.critical', 'kern.info'],
  '*.critical': ['kern.critical', 'cron.critical'],
  '#.critical': ['kern.critical', 'cron.critical', 'gate.left.critical'],
};

run(async ({ connect, prefix }) => {
  const exchange = `${prefix}-topics`;
  const channel = await (await connect()).createChannel();
  await channel.assertExchange(exchange, 'topic', { durable: false });
  const queues = {};
  for (const pattern of Object.keys(EXPECTED)) {
    queues[pattern] = (await channel.assertQueue('', { exclusive: true })).queue;
    await channel.bindQueue(queues[pattern], exchange, pattern);
  }
  for (const key of KEYS) channel.publish(exchange, key, Buffer.from(key));
  for (const [pattern, keys] of Object.entries(EXPECTED)) {
    assert.deepStrictEqual(await receive(channel, queues[pattern], keys.length), keys, pattern);
  }
  await channel.deleteExchange(exchange);
});
