// SPDX-License-Identifier: MIT
// Workers of the chosen stream: what each has, since when, how fast, when it was last seen.

const SILENT_MS = 60000;

const KIND_TITLES = {
  working: "",
  silent: "has batches, and was not seen for a minute",
  gone: "has no batch, and was not seen for a minute",
};

/** "working", "silent" (has batches, was not seen for long) or "gone" (has none). */
function workerKind(worker) {
  if (worker.last_seen_ms >= 0 && worker.last_seen_ms < SILENT_MS) return "working";
  return worker.leased > 0 ? "silent" : "gone";
}

/** Milliseconds ago; below 0: before the server started. */
function agoText(milliseconds) {
  return milliseconds < 0 ? "before start" : formatAge(milliseconds);
}

const WORKER_COLUMNS = [
  ["leased", (worker) => formatCount(worker.leased)],
  ["oldest", (worker) => (worker.leased > 0 ? agoText(worker.oldest_ms) : UNKNOWN)],
  ["batches/s", (worker) => formatRate(worker.batches_per_s)],
  ["done", (worker) => formatCount(worker.acked)],
  ["redelivered", (worker) => formatCount(worker.redelivered)],
  ["seen", (worker) => agoText(worker.last_seen_ms)],
];

function createWorker() {
  const name = make("th", "worker", [make("span", "worker-name"), make("span", "chip")]);
  name.setAttribute("scope", "row");
  name.setAttribute("role", "rowheader");
  const cells = WORKER_COLUMNS.map(([title]) => {
    const cell = make("td", "");
    cell.setAttribute("role", "cell");
    cell.dataset.title = title;
    return cell;
  });
  const row = make("tr", "", [name, ...cells]);
  row.setAttribute("role", "row");
  return row;
}

function updateWorker(row, worker) {
  const [name, ...cells] = row.children;
  const kind = workerKind(worker);
  row.dataset.kind = kind;
  setText(name.firstChild, worker.name);
  setAttribute(name.firstChild, "title", worker.name);
  setText(name.lastChild, kind === "working" ? "" : kind);
  setAttribute(name.lastChild, "title", KIND_TITLES[kind]);
  cells.forEach((cell, i) => setText(cell, WORKER_COLUMNS[i][1](worker)));
  cells[4].dataset.some = worker.redelivered > 0 ? "yes" : "";
}

// The style sheet shows the table as blocks on a narrow screen; the roles keep it a table for
// those who listen to it.
function createWorkerTable() {
  const head = make("tr", "", ["worker", ...WORKER_COLUMNS.map(([title]) => title)].map((title) => {
    const cell = make("th", "", title);
    cell.setAttribute("scope", "col");
    cell.setAttribute("role", "columnheader");
    return cell;
  }));
  const table = make("table", "workers", [make("thead", "", [head]), make("tbody")]);
  table.setAttribute("role", "table");
  table.setAttribute("aria-labelledby", "workers-title");
  for (const part of [table.tHead, table.tBodies[0]]) part.setAttribute("role", "rowgroup");
  head.setAttribute("role", "row");
  return table;
}

const WORKER_ORDER = { silent: 0, working: 1, gone: 2 };
const byName = new Intl.Collator("en", { numeric: true });

function sortWorkers(rows) {
  return [...rows].sort((a, b) => WORKER_ORDER[workerKind(a)] - WORKER_ORDER[workerKind(b)] ||
    byName.compare(a.name, b.name));
}

const MOST_ROWS = 200; // that the server sends

function moreText(workers) {
  const rest = workers.count - workers.rows.length;
  return workers.rows.length < MOST_ROWS
    ? `${formatCount(rest)} more have nothing and were not seen since the server started.`
    : `${formatCount(rest)} more: shown are those who have their oldest batch longest, then those seen last.`;
}

function showWorkers(chosen) {
  const workers = chosen && chosen.workers;
  const parent = byId("workers");
  const count = workers ? workers.count : 0;
  setText(byId("workers-count"), count > 0 ? formatCount(count) : "");
  let parts = [];
  if (count === 0) parts = ["empty"];
  else parts = count > workers.rows.length ? ["table", "more"] : ["table"];
  setChildren(parent, parts, (part) => part,
    (part) => (part === "table" ? createWorkerTable() : make("p", "note")),
    (child, part) => {
      if (part === "empty") {
        setText(child, "No worker yet. Whoever draws with /batch?worker=NAME&seq=N is listed here; its batches " +
          "are leased, and go to another worker when it is lost.");
      } else if (part === "more") {
        setText(child, moreText(workers));
      } else {
        setChildren(child.tBodies[0], sortWorkers(workers.rows), (worker) => worker.name, createWorker, updateWorker);
      }
    });
  setScrollable(parent);
}
