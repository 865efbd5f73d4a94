'use strict';

const assert = require('node:assert');
const { run, receive } = require('./program');

run(async ({ connect, prefix }) => {
  const queue = `${prefix}-hello`;
  const sender = await (await connect()).createChannel();
  await sender.assertQueue(queue, { durable: false, autoDelete: true });
  sender.sendToQueue(queue, Buffer.from('the gate is open'));

  const receiver = await (await connect()).createChannel();
  await receiver.assertQueue(queue, { durable: false, autoDelete: true });
  assert.deepStrictEqual(await receive(receiver, queue, 1), ['the gate is open']);
});
