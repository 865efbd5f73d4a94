// A client of NestJS, and the microservice of service.js in a process of its own: node client.js URL PREFIX
// In each round: request, reply, and both close at once. Nest does not wait for the confirm of its reply; one that
// comes after the reply is an unhandled 'Channel closed'.
'use strict';

const assert = require('node:assert');
const { fork } = require('node:child_process');
const { once } = require('node:events');
const path = require('node:path');
const { Logger } = require('@nestjs/common');
const { ClientProxyFactory, Transport } = require('@nestjs/microservices');
const { firstValueFrom } = require('rxjs');
const { complaints, logger } = require('./complaints');

const ROUNDS = 20;
const [url, prefix] = process.argv.slice(2);
const options = { urls: [url], queue: `${prefix}-sums`, queueOptions: { durable: true } };

async function round(service, number) {
  await tell(service, 'listen');
  const client = ClientProxyFactory.create({ transport: Transport.RMQ, options });
  const sum = await firstValueFrom(client.send({ cmd: 'sum' }, [number, 1, 2]));
  assert.strictEqual(sum, number + 3);
  const [complaintsOfService] = await Promise.all([tell(service, 'close'), client.close()]);
  assert.deepStrictEqual([...complaints, ...complaintsOfService], []);
}

async function tell(service, word) {
  service.send(word);
  return (await once(service, 'message'))[0];
}

async function main() {
  Logger.overrideLogger(logger);
  const service = fork(path.join(__dirname, 'service.js'), [JSON.stringify(options)]);
  service.once('exit', (code) => {
    console.error(`the service has ended with ${code}`);
    process.exit(1);
  });
  for (let number = 0; number < ROUNDS; number++) await round(service, number);
  service.removeAllListeners('exit');
  service.disconnect();
  await once(service, 'exit');
}

main()
  .then(() => process.exit(0))
  .catch((error) => {
    console.error(error);
    process.exit(1);
  });
