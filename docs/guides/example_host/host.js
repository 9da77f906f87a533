// The page of the example host: pre-warms a frame, opens studies in it or in a window of its own,
// has a button for each action, and shows every event.
const at = (id) => document.getElementById(id);
const { app } = await (await fetch("/config")).json();
const origin = new URL(app).origin;
const { connect, createReportFrame } = await import(`${app}/reporting/host-sdk/index.js`);

const ACTIONS = [
  "sign_report",
  "unsign_report",
  "prelim_report",
  "save_report",
  "create_addendum",
  "cancel_addendum",
  "sign_addendum",
  "unsign_addendum",
  "toggle_recorder",
  "select_next_bracket",
  "select_prev_bracket",
  "apply_report_ai",
  "get_microphone_devices",
  "change_microphone",
  "user_activity",
];

const frame = createReportFrame(document, "Report");
at("stage").append(frame);
let report = connect(frame, { origin });
listen();

function listen() {
  report.on("*", (event) => {
    const line = document.createElement("li");
    line.dataset.type = event.type;
    line.dataset.event = JSON.stringify(event);
    const name = document.createElement("b");
    name.textContent = event.type;
    line.append(name, ` ${event.status ?? event.code ?? ""} ${event.clinicalInfo.Accession}`);
    at("log").prepend(line);
  });
}

async function post(path, body = {}) {
  const response = await fetch(path, { method: "POST", body: JSON.stringify(body) });
  const answer = await response.json();
  if (!response.ok) throw new Error(`${response.status} ${answer.code}: ${answer.detail}`);
  return answer;
}

function launch() {
  const { sync, force, ...tags } = Object.fromEntries(new FormData(at("study")));
  return post("/launch", { tags, sync: sync === "on", force: force === "on" });
}

at("prewarm").addEventListener("click", async () => {
  report.load((await post("/session")).sessionLink);
});

at("study").addEventListener("submit", async (event) => {
  event.preventDefault();
  report.load((await launch()).reportLink);
});

at("open-window").addEventListener("click", async () => {
  const { reportLink } = await launch();
  const opened = window.open(reportLink, "report");
  report.close();
  report = connect(opened, { origin });
  listen();
});

at("launch-only").addEventListener("click", async () => {
  const answer = await launch();
  at("launch-only").dataset.warnings = JSON.stringify(answer.warnings);
});

for (const action of ACTIONS) {
  const button = document.createElement("button");
  button.id = action;
  button.textContent = action;
  button.addEventListener("click", () => {
    const value = (name) => at(name).value;
    const parameters = {
      prelim_report: () => ({ prelimGroup: value("prelimGroup"), prelimTag: value("prelimTag") }),
      change_microphone: () => ({ deviceId: value("deviceId") }),
    };
    report.send(action, parameters[action]?.());
  });
  at("actions").append(button);
}

let stopSharing = null;
at("activity").addEventListener("change", () => {
  stopSharing?.();
  stopSharing = at("activity").checked ? report.shareActivity() : null;
});
document.body.dataset.ready = "true";
