// node tls.js URL AUTHORITY [CERTIFICATE]: one confirmed message there and back over TLS, with the broker verified. With
// a certificate (and its key, in the same file) the client logs in with EXTERNAL.
'use strict';

const assert = require('node:assert');
const { readFileSync } = require('node:fs');
const amqp = require('amqplib');

async function main() {
  const [url, authority, certificate] = process.argv.slice(2);
  const options = { ca: [readFileSync(authority)], minVersion: 'TLSv1.3', servername: 'localhost' };
  if (certificate) {
    const own = readFileSync(certificate);
    Object.assign(options, { cert: own, key: own, credentials: amqp.credentials.external() });
  }
  const connection = await amqp.connect(url, options);
  const channel = await connection.createConfirmChannel();
  const { queue } = await channel.assertQueue('', { exclusive: true });
  const body = Buffer.alloc(300000, 42);
  channel.sendToQueue(queue, body);
  await channel.waitForConfirms();
  const got = await channel.get(queue, { noAck: true });
  assert(got.content.equals(body));
  await connection.close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
