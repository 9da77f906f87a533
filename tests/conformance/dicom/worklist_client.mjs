// Asks a worklist with dcmjs-dimse: port and calling AE title; prints the ids of the patients.
import { createRequire } from "node:module";

const require = createRequire(
  new URL("../../../web/package.json", import.meta.url),
);
const dcmjsDimse = require("dcmjs-dimse");
const { Client } = dcmjsDimse;
const { CFindRequest, CEchoRequest } = dcmjsDimse.requests;
const { Status } = dcmjsDimse.constants;

dcmjsDimse.log.level = "silent";
const [port, calling] = process.argv.slice(2);
const found = { echo: "", ids: [], names: [], status: -1, errors: [] };
const echo = new CEchoRequest();
echo.on(
  "response",
  (response) => (found.echo = response.getStatus() === Status.Success),
);
const query = CFindRequest.createWorklistFindRequest({
  PatientName: "*",
  PatientID: "",
  ScheduledProcedureStepSequence: [
    { Modality: "CT", ScheduledProcedureStepStartDate: "20261130-20261130" },
  ],
});
query.on("response", (response) => {
  found.status = response.getStatus();
  if (response.hasDataset()) {
    found.ids.push(response.getDataset().getElement("PatientID"));
    found.names.push(response.getDataset().getElement("PatientName"));
  }
});
const client = new Client();
client.addRequest(echo);
client.addRequest(query);
// After the last answer the client itself may write to a connection that it has ended.
const isDone = () => found.echo === true && found.status === Status.Success;
client.on("networkError", (error) => {
  if (!isDone()) found.errors.push(String(error.message));
});
client.on("associationRejected", () => found.errors.push("rejected"));
client.on("closed", () => console.log(JSON.stringify(found)));
client.send("127.0.0.1", Number(port), calling, "REPORT_BRIDGE");
