// @medplum/hl7 as a sender: `PORT first|application`; messages as a JSON array in, a reply a line out.
import { Hl7Message } from "@medplum/core";
import { Hl7Client } from "@medplum/hl7";
import { Socket } from "node:net";
import { text } from "node:stream/consumers";

const END = Buffer.from("\x1c\r");

// Its defect: it takes each read for one message. TCP may deliver the application acknowledgment
// of one message together with the commit acknowledgment of the next, which it would not see.
// So each frame is passed to it separately.
const emit = Socket.prototype.emit;
Socket.prototype.emit = function (event, data, ...more) {
  if (event !== "data" || !Buffer.isBuffer(data)) return emit.call(this, event, data, ...more);
  for (let start = 0, end; start < data.length; start = end) {
    const found = data.indexOf(END, start);
    end = found < 0 ? data.length : found + END.length;
    emit.call(this, event, data.subarray(start, end), ...more);
  }
  return true;
};

const [port, returnAck] = process.argv.slice(2);
const client = new Hl7Client({ host: "127.0.0.1", port: Number(port) });
for (const message of JSON.parse(await text(process.stdin))) {
  const options = { returnAck, timeoutMs: 20000 };
  const reply = await client.sendAndWait(Hl7Message.parse(message), options);
  console.log(JSON.stringify(reply.toString()));
}
// It is not asked to close: until its timers of 20 s have run out it would report errors.
process.exit(0);
