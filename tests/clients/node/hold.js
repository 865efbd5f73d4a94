// A producer that is held: node hold.js URL QUEUE COUNT SIZE
// Publishes as fast as the library lets it (waiting for 'drain' as its documentation says), then proves that the
// connection is alive, and says so. Ends with exit code 1 if the connection fails.
'use strict';

const amqp = require('amqplib');

const [url, queue, count, size] = process.argv.slice(2);

async function main() {
  const connection = await amqp.connect(url);
  connection.on('error', (error) => {
    console.error(error);
    process.exit(1);
  });
  const channel = await connection.createChannel();
  console.log('publishing');
  for (let number = 0; number < Number(count); number++) {
    const body = Buffer.alloc(Number(size));
    body.writeUInt32BE(number, 4);
    if (!channel.sendToQueue(queue, body)) await new Promise((resolve) => channel.once('drain', resolve));
  }
  await channel.assertQueue('', { exclusive: true });
  console.log('alive');
  await connection.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
