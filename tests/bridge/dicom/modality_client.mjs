// Reports a step and stores a file with dcmjs-dimse: port, instance UID, accession number, MRN, file.
import { createRequire } from "node:module";

const require = createRequire(
  new URL("../../../web/package.json", import.meta.url),
);
const dcmjsDimse = require("dcmjs-dimse");
const { Client, Dataset } = dcmjsDimse;
const { CStoreRequest, NCreateRequest, NSetRequest } = dcmjsDimse.requests;

dcmjsDimse.log.level = "silent";
const MPPS = "1.2.840.10008.3.1.2.3.3";
const [port, uid, accession, mrn, file] = process.argv.slice(2);
const found = { statuses: [], errors: [] };

const create = new NCreateRequest(MPPS, uid);
create.setDataset(
  new Dataset({
    ScheduledStepAttributesSequence: [
      {
        StudyInstanceUID: "1.2.840.99999.1",
        AccessionNumber: accession,
        ScheduledProcedureStepID: "S1",
      },
    ],
    PatientID: mrn,
    PatientName: "TESTER^TILDA",
    PerformedStationAETitle: "CT1",
    PerformedProcedureStepStartDate: "20261130",
    PerformedProcedureStepStartTime: "101500",
    PerformedProcedureStepStatus: "IN PROGRESS",
    PerformedProcedureStepID: "PPS1",
    Modality: "CT",
  }),
);
const end = new NSetRequest(MPPS, uid);
end.setDataset(
  new Dataset({
    PerformedProcedureStepStatus: "COMPLETED",
    PerformedProcedureStepEndDate: "20261130",
    PerformedProcedureStepEndTime: "103000",
  }),
);
const client = new Client();
for (const request of [create, end, new CStoreRequest(file)]) {
  request.on("response", (response) =>
    found.statuses.push(response.getStatus()),
  );
  client.addRequest(request);
}
client.on("networkError", (error) => found.errors.push(String(error.message)));
client.on("associationRejected", () => found.errors.push("rejected"));
client.on("closed", () => console.log(JSON.stringify(found)));
client.send("127.0.0.1", Number(port), "CT1", "REPORT_BRIDGE");
