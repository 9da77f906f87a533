// node-hl7-client as a sender: `PORT`; reads a JSON array of messages, prints a reply per line.
import { Client, Message } from "node-hl7-client";
import { text } from "node:stream/consumers";

let onReply;
const client = new Client({ host: "127.0.0.1" });
const connection = client.createConnection({ port: Number(process.argv[2]) }, (reply) => onReply(reply));
connection.on("data.error", (error) => {
  throw error;
});
await new Promise((resolve) => connection.on("connect", resolve));
for (const message of JSON.parse(await text(process.stdin))) {
  const reply = new Promise((resolve) => (onReply = resolve));
  await connection.sendMessage(new Message({ text: message.trimEnd() }));
  console.log(JSON.stringify((await reply).getMessage().toString()));
}
await connection.close();
