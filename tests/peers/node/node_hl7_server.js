// node-hl7-server as a receiver of results: `PORT`; prints each parsed message as a line.
import { Server } from "node-hl7-server";

const server = new Server({ bindAddress: "127.0.0.1" });
server.createInbound({ port: Number(process.argv[2]) }, async (request, response) => {
  console.log(JSON.stringify(request.getMessage().toString()));
  await response.sendResponse("AA");
});
