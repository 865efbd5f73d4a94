// The frame of each program here: node NAME.js URL PREFIX
// `main` gets a function that opens connections and the prefix of all its names; whatever it leaves open is closed
// after it, and any error ends the process with exit code 1.
'use strict';

const amqp = require('amqplib');

function run(main) {
  const [url, prefix] = process.argv.slice(2);
  const connections = [];

  async function connect() {
    const connection = await amqp.connect(url);
    connections.push(connection);
    return connection;
  }

  main({ connect, prefix })
    .then(() => Promise.all(connections.map((connection) => connection.close())))
    .then(() => process.exit(0))
    .catch((error) => {
      console.error(error);
      process.exit(1);
    });
}

// Consume until `count` messages are there; resolves to their texts.
function receive(channel, queue, count, options = { noAck: true }) {
  return new Promise((resolve, reject) => {
    const texts = [];
    channel
      .consume(
        queue,
        (message) => {
          if (message === null) return reject(new Error(`consumer of ${queue} cancelled`));
          texts.push(message.content.toString());
          if (!options.noAck) channel.ack(message);
          if (texts.length === count) resolve(texts);
        },
        options,
      )
      .catch(reject);
  });
}

module.exports = { run, receive };
