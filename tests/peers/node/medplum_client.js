// @medplum/hl7 as a sender: `PORT first|application`; messages as a JSON array in, a reply a line out.
import { Hl7Message } from "@medplum/core";
import { Hl7Client } from "@medplum/hl7";
import { text } from "node:stream/consumers";

const [port, returnAck] = process.argv.slice(2);
const client = new Hl7Client({ host: "127.0.0.1", port: Number(port) });
for (const message of JSON.parse(await text(process.stdin))) {
  const options = { returnAck, timeoutMs: 20000 };
  const reply = await client.sendAndWait(Hl7Message.parse(message), options);
  console.log(JSON.stringify(reply.toString()));
}
// It is not asked to close: until its timers of 20 s have run out it would report errors.
process.exit(0);
