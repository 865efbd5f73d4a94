// A producer that connects anew whenever it is thrown out: node dodge.js URL QUEUE. Says how it ends: it is
// held off, which the library tells as an answer that it did not expect.
'use strict';

const amqp = require('amqplib');

const [url, queue] = process.argv.slice(2);

async function publish() {
  const connection = await amqp.connect(url);
  const lost = new Promise((_, reject) => connection.on('error', reject));
  const confirmed = (async () => {
    const channel = await connection.createConfirmChannel();
    channel.on('error', () => {}); // its connection tells
    channel.sendToQueue(queue, Buffer.from('again'));
    await channel.waitForConfirms();
  })();
  await Promise.race([lost, confirmed]);
}

async function main() {
  for (;;) {
    try {
      await publish();
    } catch (error) {
      if (error.message.includes('ConnectionClose')) return console.log(error.message);
    }
  }
}

process.on('unhandledRejection', () => {}); // of what was under way when a connection went
main();
