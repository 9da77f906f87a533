// node-hl7-server as a receiver of results: `PORT`; what it understood, a line for each message.
import { Server } from "node-hl7-server";

const server = new Server({ bindAddress: "127.0.0.1" });
server.createInbound({ port: Number(process.argv[2]) }, async (request, response) => {
  console.log(JSON.stringify(request.getMessage().toString()));
  await response.sendResponse("AA");
});
