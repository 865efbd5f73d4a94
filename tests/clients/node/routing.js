'use strict';

const assert = require('node:assert');
const { run, receive } = require('./program');

const SEVERITIES = ['info', 'warning', 'error'];

run(async ({ connect, prefix }) => {
  const exchange = `${prefix}-direct`;
  const channel = await (await connect()).createChannel();
  await channel.assertExchange(exchange, 'direct', { durable: false });

  async function subscribed(severities) {
    const { queue } = await channel.assertQueue('', { exclusive: true });
    for (const severity of severities) await channel.bindQueue(queue, exchange, severity);
    return queue;
  }

  const errors = await subscribed(['error']);
  const everything = await subscribed(SEVERITIES);
  const publisher = await (await connect()).createChannel();
  for (const severity of SEVERITIES) publisher.publish(exchange, severity, Buffer.from(severity));
  assert.deepStrictEqual(await receive(channel, everything, 3), SEVERITIES);
  assert.deepStrictEqual(await receive(channel, errors, 1), ['error']);
  assert.strictEqual(await channel.get(errors), false);
  await channel.deleteExchange(exchange);
});
