// A microservice of NestJS that adds numbers: started by client.js, which tells it to listen and to close.
// It answers with what was complained of meanwhile.
'use strict';

require('reflect-metadata');
const { Controller, Module } = require('@nestjs/common');
const { NestFactory } = require('@nestjs/core');
const { MessagePattern, Transport } = require('@nestjs/microservices');
const { complaints, logger } = require('./complaints');

class Sums {
  sum(numbers) {
    return numbers.reduce((left, right) => left + right, 0);
  }
}
MessagePattern({ cmd: 'sum' })(Sums.prototype, 'sum', Object.getOwnPropertyDescriptor(Sums.prototype, 'sum'));
Controller()(Sums);

class App {}
Module({ controllers: [Sums] })(App);

const options = JSON.parse(process.argv[2]);

let app;

async function obey(word) {
  if (word === 'listen') {
    app = await NestFactory.createMicroservice(App, { transport: Transport.RMQ, options, logger });
    await app.listen();
  } else {
    await app.close();
  }
  process.send(complaints.splice(0));
}

process.on('message', obey);
process.on('disconnect', () => process.exit(0));
