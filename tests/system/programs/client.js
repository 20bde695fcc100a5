// Creates a topic, sends messages to it at once, receives them again and prints them: NAMESRV BROKER TOPIC BODY ...
'use strict';

const { Consumer, Message, Producer } = require('ali-ons');

const [nameSrv, broker, topic, ...bodies] = process.argv.slice(2);
const common = { nameSrv, httpclient: {} };
let toReceive = bodies.length;

async function main() {
  const producer = new Producer({ ...common, producerGroup: 'senders', retryTimesWhenSendFailed: 0 });
  await producer.ready();
  const queues = { readQueueNums: 4, writeQueueNums: 4, perm: 6, topicFilterType: 'SINGLE_TAG', topicSysFlag: 0, order: false };
  await producer._mqClient.createTopic(broker, 'TBW102', { topicName: topic, ...queues }, 5000);
  for (const body of bodies) {
    const { sendStatus } = await producer.send(new Message(topic, body));
    if (sendStatus !== 'SEND_OK') throw new Error(sendStatus);
  }
  const consumer = new Consumer({ ...common, consumerGroup: `group-${topic}`, consumeFromWhere: 'CONSUME_FROM_FIRST_OFFSET' });
  consumer.subscribe(topic, '*', async message => {
    console.log(message.body.toString());
    if (--toReceive === 0) setImmediate(() => process.exit(0));
  });
  await consumer.ready();
}

main().catch(error => {
  console.error(error);
  process.exit(1);
});
