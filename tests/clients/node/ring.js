// One of two clients in a ring: node ring.js URL SOURCE TARGET COUNT FIRST, as tests/clients/ring.py.
'use strict';

const amqp = require('amqplib');

const [url, source, target, ...numbers] = process.argv.slice(2);
const [count, first] = numbers.map(Number);

function fail(error) {
  console.error(error);
  process.exit(1);
}

async function main() {
  const connection = await amqp.connect(`${url}?heartbeat=5`);
  connection.on('error', fail);
  const channel = await connection.createChannel();
  await channel.prefetch(5);
  let received = 0;
  const all = new Promise((resolve) => {
    channel.consume(source, (message) => {
      channel.ack(message);
      if (++received === count + first) resolve();
    });
  });
  for (let number = 0; number < count; number++) {
    const goesOn = channel.sendToQueue(target, Buffer.alloc(1024));
    if (!goesOn) await new Promise((resolve) => channel.once('drain', resolve));
  }
  await all;
  await channel.close(); // behind its acks, which connection.close would overtake
  await connection.close();
  console.log('done');
}

main().catch(fail);
