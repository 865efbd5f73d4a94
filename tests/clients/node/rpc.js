'use strict';

const assert = require('node:assert');
const { randomUUID } = require('node:crypto');
const { run } = require('./program');

function fibonacci(n) {
  let [a, b] = [0, 1];
  for (let i = 0; i < n; i++) [a, b] = [b, a + b];
  return a;
}

run(async ({ connect, prefix }) => {
  const requests = `${prefix}-rpc`;
  const server = await (await connect()).createChannel();
  await server.assertQueue(requests, { durable: false, autoDelete: true });
  await server.prefetch(1);
  await server.consume(requests, (message) => {
    const { replyTo, correlationId } = message.properties;
    const answer = fibonacci(Number(message.content.toString()));
    server.sendToQueue(replyTo, Buffer.from(String(answer)), { correlationId });
    server.ack(message);
  });

  const client = await (await connect()).createChannel();
  const { queue: replyTo } = await client.assertQueue('', { exclusive: true });
  const waiting = new Map();
  await client.consume(
    replyTo,
    (message) => waiting.get(message.properties.correlationId)(Number(message.content.toString())),
    { noAck: true },
  );

  function call(n) {
    return new Promise((resolve) => {
      const correlationId = randomUUID();
      waiting.set(correlationId, resolve);
      client.sendToQueue(requests, Buffer.from(String(n)), { correlationId, replyTo });
    });
  }

  const numbers = Array.from({ length: 20 }, (_, n) => n);
  assert.deepStrictEqual(await Promise.all(numbers.map(call)), numbers.map(fibonacci));
});
