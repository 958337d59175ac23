// An application with kafkajs, unmodified: asks in transactions, and prints the results, each on a line.
const { Kafka, logLevel } = require("kafkajs");

const [bootstrap, queries, results, count] = process.argv.slice(2);
const kafka = new Kafka({ clientId: "application", brokers: [bootstrap], logLevel: logLevel.ERROR });
const own = `application-${queries}`;

async function ask(producer, id, end) {
  const transaction = await producer.transaction();
  const value = JSON.stringify({ query_id: id, text: "blue lantern" });
  await transaction.send({ topic: queries, messages: [{ key: id, value }] });
  await transaction[end]();
}

async function main() {
  const producer = kafka.producer({ transactionalId: own, maxInFlightRequests: 1, idempotent: true });
  await producer.connect();
  for (let number = 0; number < Number(count); number++) {
    await ask(producer, `aborted-${number}`, "abort");
    await ask(producer, `asked-${number}`, "commit");
  }
  await ask(producer, "aborted-last", "abort");
  await producer.disconnect();
  const consumer = kafka.consumer({ groupId: own, maxWaitTimeInMs: 200 });
  const keys = new Set();
  let heard = Date.now();
  await consumer.connect();
  await consumer.subscribe({ topic: results, fromBeginning: true });
  await consumer.run({
    eachMessage: async ({ message }) => {
      keys.add(message.key.toString());
      heard = Date.now();
      console.log(message.value.toString());
    },
  });
  // What comes twice comes within the second behind the last.
  setInterval(() => {
    if (keys.size >= Number(count) && Date.now() - heard > 1000) consumer.disconnect().then(() => process.exit(0));
  }, 100);
}

main();
