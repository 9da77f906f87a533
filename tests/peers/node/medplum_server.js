// @medplum/hl7 as a receiver of results: `PORT`; prints each parsed message as a line.
import { Hl7Server } from "@medplum/hl7";

const server = new Hl7Server((connection) => {
  connection.addEventListener("message", ({ message }) => {
    console.log(JSON.stringify(message.toString()));
    connection.send(message.buildAck());
  });
});
server.start(Number(process.argv[2]), "utf-8");
