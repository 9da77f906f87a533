// @medplum/hl7's server, which parses and answers and stores nothing: `node medplum.mjs PORT`.
import { Hl7Server } from "@medplum/hl7";

const server = new Hl7Server((connection) => {
  connection.addEventListener("message", ({ message }) => connection.send(message.buildAck()));
});
await server.start(Number(process.argv[2]));
