// SPDX-License-Identifier: MIT
// Workers of the chosen stream: what each has, since when, how fast, when it was last seen; and who
// reads it by index, and where they are.

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

const WORKERS = {
  id: "workers",
  columns: [
    ["leased", (worker) => formatCount(worker.leased)],
    ["oldest", (worker) => (worker.leased > 0 ? agoText(worker.oldest_ms) : UNKNOWN)],
    ["batches/s", (worker) => formatRate(worker.batches_per_s)],
    ["done", (worker) => formatCount(worker.acked)],
    ["redelivered", (worker) => formatCount(worker.redelivered), (worker) => worker.redelivered > 0],
    ["seen", (worker) => agoText(worker.last_seen_ms)],
  ],
  empty: "No worker yet. Whoever draws with /batch?worker=NAME&seq=N is listed here; its batches " +
    "are leased, and go to another worker when it is lost.",
  more: (list) => (list.rows.length < MOST_ROWS
    ? `${formatCount(list.count - list.rows.length)} more have nothing and were not seen since the server started.`
    : `${formatCount(list.count - list.rows.length)} more: shown are those who have their oldest batch longest, then those seen last.`),
};

const READERS = {
  id: "readers",
  columns: [
    ["newest batch", (reader) => formatCount(reader.newest)],
    ["ids/s", (reader) => formatRate(reader.ids_per_s)],
    ["batches", (reader) => formatCount(reader.batches)],
    ["seen", (reader) => agoText(reader.last_seen_ms)],
  ],
  more: (list) => `${formatCount(list.count - list.rows.length)} more: shown are those seen last.`,
};

const MOST_ROWS = 200; // that the server sends

function createRow({ columns }, { name }) {
  const head = make("th", "worker", [make("span", "ball"), make("span", "worker-name"), make("span", "chip")]);
  head.setAttribute("scope", "row");
  head.setAttribute("role", "rowheader");
  setColor(head.firstChild, name);
  const cells = columns.map(([title]) => {
    const cell = make("td", "");
    cell.setAttribute("role", "cell");
    cell.dataset.title = title;
    return cell;
  });
  const row = make("tr", "", [head, ...cells]);
  row.setAttribute("role", "row");
  return row;
}

function updateRow({ columns }, row, worker) {
  const [head, ...cells] = row.children;
  const [, name, chip] = head.children;
  const kind = workerKind(worker);
  row.dataset.kind = kind;
  setText(name, worker.name);
  setAttribute(name, "title", worker.name);
  setText(chip, kind === "working" ? "" : kind);
  setAttribute(chip, "title", KIND_TITLES[kind]);
  cells.forEach((cell, i) => {
    const [, textOf, isSome] = columns[i];
    setText(cell, textOf(worker));
    cell.dataset.some = isSome && isSome(worker) ? "yes" : "";
  });
}

// The style sheet shows the table as blocks on a narrow screen; the roles keep it a table for
// those who listen to it.
function createTableOf({ id, columns }) {
  const head = make("tr", "", ["worker", ...columns.map(([title]) => title)].map((title) => {
    const cell = make("th", "", title);
    cell.setAttribute("scope", "col");
    cell.setAttribute("role", "columnheader");
    return cell;
  }));
  const table = make("table", "workers", [make("thead", "", [head]), make("tbody")]);
  table.setAttribute("role", "table");
  table.setAttribute("aria-labelledby", `${id}-title`);
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

function showTable(kind, list) {
  const parent = byId(kind.id);
  const count = list ? list.count : 0;
  setText(byId(`${kind.id}-count`), count > 0 ? formatCount(count) : "");
  let parts = [];
  if (count === 0) parts = ["empty"];
  else parts = count > list.rows.length ? ["table", "more"] : ["table"];
  setChildren(parent, parts, (part) => part,
    (part) => (part === "table" ? createTableOf(kind) : make("p", "note")),
    (child, part) => {
      if (part !== "table") setText(child, part === "more" ? kind.more(list) : kind.empty || "");
      else {
        setChildren(child.tBodies[0], sortWorkers(list.rows), (worker) => worker.name,
          (worker) => createRow(kind, worker), (row, worker) => updateRow(kind, row, worker));
      }
    });
  setScrollable(parent);
}

/** Where nobody leases, those who read stand alone. */
function showWorkers(chosen) {
  const hasReaders = Boolean(chosen) && chosen.readers.count > 0;
  setHidden(byId("workers-section"), hasReaders && chosen.workers.count === 0);
  showTable(WORKERS, chosen && chosen.workers);
}

/** A mark for each reader of the epoch that the furthest of them is in. */
function showPlaces(readers, stream) {
  const epoch = stream.read ? stream.read.epoch : 0;
  const begin = epoch * stream.epoch_draws;
  const there = readers.rows.filter((reader) => reader.position > begin && reader.position <= begin + stream.epoch_draws &&
    workerKind(reader) === "working");
  setChildren(byId("readers-places"), there, (reader) => reader.name,
    (reader) => {
      const mark = make("span", "ball");
      setColor(mark, reader.name);
      return mark;
    },
    (mark, reader) => {
      setLength(mark, "--at", (reader.position - begin) / stream.epoch_draws);
      setAttribute(mark, "title", `${reader.name}: ${formatCount(reader.position - begin)} of ${formatCount(stream.epoch_draws)}`);
    });
  setText(byId("readers-epoch"), `epoch ${formatCount(epoch)}`);
}

function showReaders(chosen, streams) {
  const readers = chosen && chosen.readers;
  const stream = chosen && streams.find((one) => one.name === chosen.name);
  const shown = Boolean(readers) && readers.count > 0 && Boolean(stream);
  setHidden(byId("readers-section"), !shown);
  if (!shown) return;
  showPlaces(readers, stream);
  showTable(READERS, readers);
}
