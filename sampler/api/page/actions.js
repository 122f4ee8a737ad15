// SPDX-License-Identifier: MIT
// What a person does with the chosen stream: pause, resume, checkpoint, delete it; find a unit.

const acting = { stream: null, busy: false };

function showActions(stream, server) {
  acting.stream = stream;
  const may = server.may_change;
  setHidden(byId("stream-pause"), !may || stream.state !== "running");
  setHidden(byId("stream-resume"), !may || stream.state !== "paused");
  setHidden(byId("stream-checkpoint"), !may);
  setHidden(byId("stream-delete"), !may || stream.name === "default");
  setHidden(byId("stream-token"), may || !server.guarded);
}

function showSaid(text, isWrong) {
  setText(byId("stream-said"), text);
  byId("stream-said").dataset.kind = isWrong ? "wrong" : "";
}

/** The text of an answer, or what its problem says. */
async function textOf(answer) {
  const text = await answer.text();
  if (answer.ok) return text;
  let problem;
  try {
    problem = JSON.parse(text);
  } catch {
    throw new Error(`status ${answer.status}`);
  }
  throw new Error(problem.detail || problem.title);
}

async function change(method, path) {
  if (acting.busy) throw new Error("The change before is not answered yet.");
  acting.busy = true;
  try {
    return await textOf(await fetchHere(path, AbortSignal.timeout(VIEW_PATIENCE_MS), method));
  } finally {
    acting.busy = false;
    poll();
  }
}

function streamPath(rest = "") {
  return `streams/${encodeURIComponent(acting.stream.name)}${rest}`;
}

const ACTIONS = {
  "stream-pause": async () => {
    await change("POST", streamPath("/pause"));
    return "Paused.";
  },
  "stream-resume": async () => {
    await change("POST", streamPath("/resume"));
    return "Resumed.";
  },
  "stream-checkpoint": async () => {
    const { name } = acting.stream;
    const { token } = JSON.parse(await change("POST", streamPath("/checkpoint")));
    showView(`Checkpoint of ${name}`, token);
    return "";
  },
  "stream-delete": async () => {
    const { name } = acting.stream;
    if (!confirm(`Delete the stream ${name}? Its position and its leases are lost; a checkpoint keeps them.`)) return "";
    await change("DELETE", streamPath());
    location.hash = "";
    return `Deleted ${name}.`;
  },
};

function prepareActions() {
  for (const [id, act] of Object.entries(ACTIONS)) {
    byId(id).addEventListener("click", async () => {
      showSaid("", false);
      try {
        showSaid(await act(), false);
      } catch (failure) {
        showSaid(failure.message, true);
      }
    });
  }
  byId("stream-token").addEventListener("click", () => askForToken("Changing streams needs a token with the scope admin."));
}

// ---- where is a unit? ------------------------------------------------------

/** Asked of another stream, the last answer says nothing. */
function showSearch(stream) {
  const form = byId("where");
  if (form.dataset.stream !== stream.name) setText(byId("where-said"), "");
  form.dataset.stream = stream.name;
  setAttribute(byId("where-epoch"), "placeholder", formatCount(progressOf(stream).epoch));
}

/** `id` as it was typed: 64 bits would not survive a parser. */
function whereText(id, place) {
  const what = `id ${id}${place.label === undefined ? "" : `, label ${place.label}`}`;
  const epoch = `epoch ${formatCount(place.epoch)}`;
  if (place.positions && place.positions.length === 0) return `${what}: not drawn so far in ${epoch}.`;
  const at = place.positions ? place.positions.map(formatCount).join(", ") : formatCount(place.position);
  const { read } = acting.stream;
  let { state } = place;
  if (place.passed) state = "passed over";
  else if (state === "ahead") state = read && place.position < read.position ? "read by index" : "still ahead";
  return `${what}: position ${at}, ${epoch}, ${state}${place.worker ? ` by ${place.worker}` : ""}.`;
}

async function findUnit() {
  const id = byId("where-id").value.trim();
  const asked = new URLSearchParams({
    id,
    stream: acting.stream.name,
    epoch: byId("where-epoch").value.trim() || progressOf(acting.stream).epoch,
  });
  const answer = await fetchHere(`where?${asked}`, AbortSignal.timeout(2 * VIEW_PATIENCE_MS));
  return whereText(id, JSON.parse(await textOf(answer)));
}

function prepareSearch() {
  byId("where").addEventListener("submit", async (event) => {
    const said = byId("where-said");
    event.preventDefault();
    setText(said, "Searching …");
    try {
      setText(said, await findUnit());
      said.dataset.kind = "";
    } catch (failure) {
      setText(said, failure.message);
      said.dataset.kind = "wrong";
    }
  });
}

// ---- copying ---------------------------------------------------------------

/** Without TLS browsers have no clipboard for a page, but they still copy what is selected. */
async function copyText(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = make("textarea", "unseen", text);
  const focused = document.activeElement;
  (byId("view").open ? byId("view") : document.body).append(field);
  field.select();
  const copied = document.execCommand("copy");
  field.remove();
  focused?.focus();
  if (!copied) throw new Error("the browser did not copy");
  return undefined;
}

function prepareCopying() {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    let said = "Copied";
    try {
      await copyText(button.dataset.copy);
    } catch {
      said = "Select it by hand";
    }
    setText(button, said);
    setTimeout(() => setText(button, "Copy"), 1500);
  });
}
