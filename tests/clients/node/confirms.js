// Confirms, one by one and many under way at once; what has no route comes back, and is confirmed all the same.
'use strict';

const assert = require('node:assert');
const { run, receive } = require('./program');

const COUNT = 500;

run(async ({ connect, prefix }) => {
  const queue = `${prefix}-confirms`;
  const channel = await (await connect()).createConfirmChannel();
  await channel.assertQueue(queue, { durable: true });

  const publish = (text, target = queue, options = {}) =>
    new Promise((resolve, reject) =>
      channel.sendToQueue(target, Buffer.from(text), options, (error) => (error ? reject(error) : resolve())),
    );

  for (let number = 0; number < 10; number++) await publish(`${number}`);
  for (let number = 10; number < COUNT; number++) publish(`${number}`);
  await channel.waitForConfirms();

  const returned = new Promise((resolve) => channel.once('return', resolve));
  await publish('lost', `${queue}-nowhere`, { mandatory: true });
  const { fields, content } = await returned;
  assert.deepStrictEqual([fields.replyCode, content.toString()], [312, 'lost']);

  const texts = await receive(channel, queue, COUNT, {});
  assert.deepStrictEqual(texts, Array.from({ length: COUNT }, (_, number) => `${number}`));
  await channel.deleteQueue(queue);
});
