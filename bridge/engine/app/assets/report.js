// The plain report page: read, type, save, sign, recall, and write an addendum.
// It holds no rule: what may be done is what the session endpoints permit.
"use strict";
(() => {
  const boot = JSON.parse(document.getElementById("boot").textContent);
  const at = (id) => document.getElementById(id);
  const AUTOSAVE_AFTER = 1500;
  let report = null;
  let saving = null;
  let timer = 0;
  let saved = "";
  let savedAddendum = "";

  // The handle in the address was exchanged for a session: it need not stay there.
  history.replaceState(null, "", location.pathname);

  async function call(path, body) {
    const response = await fetch("/reporting/api/session/" + path, {
      method: body === undefined ? "GET" : "POST",
      headers: { "Content-Type": "application/json", Authorization: "Bearer " + boot.session },
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
    });
    const answer = response.status === 204 ? null : await response.json();
    if (!response.ok) throw Object.assign(new Error(answer.detail), { code: answer.code });
    return answer;
  }

  function say(text, kind) {
    at("say").textContent = text;
    at("say").className = "say " + (kind || "");
  }

  const draft = () => report.addenda.find((one) => one.state === "draft");
  const clock = (ms) => new Date(ms).toLocaleString(boot.language);

  function facts(list, entries) {
    list.replaceChildren();
    for (const [name, value] of entries) {
      if (!value) continue;
      const term = document.createElement("dt");
      const text = document.createElement("dd");
      term.textContent = name;
      text.textContent = value;
      list.append(term, text);
    }
  }

  function showStudy() {
    const first = report.orders[0] || {};
    const name = (first.PatientName || "").split("^").filter(Boolean).join(", ");
    at("patient").textContent = name || first.PatientMRN || "";
    at("facts").textContent = [
      first.PatientMRN, first.PatientBirthDate, first.PatientAge, first.PatientSex,
      first.Modality, first.StudyDescription,
    ].filter(Boolean).join(" · ");
    facts(at("orders"), report.orders.map((each) => [
      each.Accession, [each.StudyDescription, each.PatientMRN].filter(Boolean).join(", ") || "-",
    ]));
    facts(at("context"), [
      ["Reason", first.ReasonForExam], ["Notes", first.Notes], ["Body part", first.BodyPartExamined],
      ["Study date", first.StudyDate], ["Referring", first.ReferringPhysician],
      ["Key findings", first.KeyFindings],
    ]);
  }

  function showAddenda() {
    const place = at("addenda");
    place.replaceChildren();
    for (const each of report.addenda.filter((one) => one.state === "signed")) {
      const box = document.createElement("article");
      const text = document.createElement("p");
      const by = document.createElement("div");
      box.className = "addendum";
      by.className = "by";
      text.textContent = each.content;
      by.textContent = "Addendum, signed " + clock(each.signedAt) + " by " + each.signedBy.name;
      box.append(text, by);
      place.append(box);
    }
    const open = draft();
    const typed = at("addendum").value !== savedAddendum;
    at("addendum-box").hidden = !open;
    if (!open || !typed) at("addendum").value = open ? open.content : "";
    savedAddendum = open ? open.content : "";
  }

  function show(next) {
    const typed = report !== null && at("text").value !== saved;
    report = next;
    showStudy();
    at("badge").textContent = report.status;
    at("badge").dataset.status = report.status;
    if (!typed) at("text").value = report.content;
    saved = report.content;
    at("text").readOnly = !report.can.includes("edit");
    for (const button of document.querySelectorAll("[data-can]")) {
      button.hidden = !report.can.includes(button.dataset.can);
    }
    at("prelim-tag").hidden = at("prelim").hidden;
    at("signed").textContent = report.signedAt
      ? "Signed " + clock(report.signedAt) + " by " + report.signedBy.name : "";
    showAddenda();
    tick();
  }

  function tick() {
    const left = (until) => Math.max(0, Math.ceil((until - Date.now()) / 1000));
    const words = [];
    if (report && report.unsignUntil && left(report.unsignUntil)) {
      words.push("The report is released in " + left(report.unsignUntil) + " s.");
    }
    if (report && report.addendumUnsignUntil && left(report.addendumUnsignUntil)) {
      words.push("The addendum is released in " + left(report.addendumUnsignUntil) + " s.");
    }
    at("cooling").textContent = words.join(" ");
  }

  async function save() {
    clearTimeout(timer);
    if (saving) await saving;
    const text = at("text").value;
    const addendum = at("addendum").value;
    saving = (async () => {
      if (report.can.includes("edit") && text !== saved) {
        const next = await call("save", { version: report.version, text });
        saved = text;
        show(next);
      }
      if (!at("addendum-box").hidden && addendum !== savedAddendum) {
        const next = await call("addendum/save", { version: draft().version, text: addendum });
        savedAddendum = addendum;
        show(next);
      }
    })();
    try { await saving; } finally { saving = null; }
  }

  const later = () => {
    say("…");
    clearTimeout(timer);
    timer = setTimeout(() => act(save, "Saved."), AUTOSAVE_AFTER);
  };

  async function act(work, done) {
    try {
      await work();
      say(done, "good");
    } catch (error) {
      say(error.message || "The service cannot be reached.", "bad");
      if (["version_conflict", "being_edited"].includes(error.code)) show(await call("report"));
    }
  }

  const step = (path, done, extra) => () => act(async () => {
    await save();
    show(await call(path, { version: report.version, ...(extra ? extra() : {}) }));
  }, done);

  const prelimChoice = () => {
    const [prelimGroup, prelimTag] = JSON.parse(at("prelim-tag").value || '["",""]');
    return { prelimGroup, prelimTag };
  };

  const steps = {
    save: () => act(save, "Saved."),
    sign: step("sign", "Signed."),
    "sign-now": step("sign-now", "Released."),
    unsign: step("unsign", "The signature is withdrawn."),
    prelim: step("prelim", "Marked as preliminary.", prelimChoice),
    discard: () => {
      if (confirm("Discard this report and its text?")) {
        act(async () => { await call("discard", { version: report.version }); closed(); }, "Discarded.");
      }
    },
    "addendum-create": () => step("addendum/create", "Write the addendum below.")()
      .then(() => at("addendum").focus()),
    "addendum-sign": step("addendum/sign", "Addendum signed.", () => ({ version: draft().version })),
    "addendum-sign-now": step("addendum/sign-now", "Addendum released."),
    "addendum-unsign": step("addendum/unsign", "The addendum's signature is withdrawn."),
    "addendum-cancel": () => act(async () => {
      show(await call("addendum/cancel", { version: report.version }));
    }, "Addendum cancelled."),
  };

  function closed() {
    document.querySelector("main").hidden = true;
    at("gone").hidden = false;
  }

  function prelims() {
    for (const group of boot.prelimGroups) {
      for (const tag of group.tags) {
        const option = document.createElement("option");
        option.value = JSON.stringify([group.name, tag]);
        option.textContent = group.name + ": " + tag;
        at("prelim-tag").append(option);
      }
    }
  }

  async function open() {
    at("transfer").hidden = true;
    show(await call("report"));
    document.querySelector("main").hidden = false;
    if (!at("text").readOnly) at("text").focus();
  }

  document.addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey)) return;
    if (event.key === "s") { event.preventDefault(); steps.save(); }
    if (event.key === "Enter" && !at("sign").hidden) { event.preventDefault(); steps.sign(); }
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[id]");
    if (button && steps[button.id]) steps[button.id]();
  });
  at("text").addEventListener("input", later);
  at("addendum").addEventListener("input", later);
  at("proceed").addEventListener("click", () => act(async () => { await call("transfer", {}); await open(); }, "The report is yours."));
  at("cancel").addEventListener("click", () => { at("transfer").hidden = true; closed(); });
  addEventListener("beforeunload", (event) => {
    if (report && report.can.includes("edit") && at("text").value !== saved) event.preventDefault();
  });
  setInterval(tick, 1000);
  setInterval(() => {
    if (report && !saving && at("text").value === saved) call("report").then(show, () => undefined);
  }, 10000);
  prelims();
  if (boot.transfer) at("transfer").hidden = false;
  else act(open, "Ready.");
})();
