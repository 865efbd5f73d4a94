'use strict';

const assert = require('node:assert');
const { run, receive } = require('./program');

const TEXTS = ['one', 'two', 'three'];

run(async ({ connect, prefix }) => {
  const exchange = `${prefix}-logs`;
  const subscribers = [];
  for (let number = 0; number < 2; number++) {
    const channel = await (await connect()).createChannel();
    await channel.assertExchange(exchange, 'fanout', { durable: false });
    const { queue } = await channel.assertQueue('', { exclusive: true });
    await channel.bindQueue(queue, exchange, '');
    subscribers.push(receive(channel, queue, TEXTS.length));
  }
  const publisher = await (await connect()).createChannel();
  for (const text of TEXTS) publisher.publish(exchange, '', Buffer.from(text));
  for (const subscriber of subscribers) assert.deepStrictEqual(await subscriber, TEXTS);
  await publisher.deleteExchange(exchange);
});
