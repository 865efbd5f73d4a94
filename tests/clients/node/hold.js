// A producer that is held: node hold.js JOB, the job as JSON (`tests.clients.hold.Job`; there are no transactions).
// Publishes as fast as the library lets it (waiting for 'drain' as its documentation says), then proves that the
// connection is alive, and says so. Ends with exit code 1 if a connection fails.
'use strict';

const amqp = require('amqplib');

const job = JSON.parse(process.argv[2]);

function fail(error) {
  console.error(error);
  process.exit(1);
}

async function produce(producer) {
  const connection = await amqp.connect(`${job.url}?heartbeat=5`);
  connection.on('error', fail);
  const channel = await (job.confirms ? connection.createConfirmChannel() : connection.createChannel());
  console.log('publishing');
  for (let number = 0; number < job.count; number++) {
    const body = Buffer.alloc(job.size);
    body.writeUInt32BE(producer, 0);
    body.writeUInt32BE(number, 4);
    for (const key of job.also ? [job.queue, job.also] : [job.queue])
      if (!channel.publish(job.exchange, key, body)) await new Promise((resolve) => channel.once('drain', resolve));
  }
  if (job.confirms) await channel.waitForConfirms();
  await channel.assertQueue('', { exclusive: true });
  console.log('alive');
  await connection.close();
}

Promise.all(Array.from({ length: job.connections }, (_, index) => produce(job.first + index))).catch(fail);
