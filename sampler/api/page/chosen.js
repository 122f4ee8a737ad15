// SPDX-License-Identifier: MIT
// The stream that was chosen: its rates, their course, and what it is.

function setNumbers(parent, rows) {
  setChildren(parent, rows, (row) => row[0],
    (row) => make("div", "number", [make("div", "big"), make("div", "note", row[0])]),
    (child, row) => {
      setText(child.firstChild, row[1]);
      child.dataset.kind = row[2] || "";
    });
}

function leaseText(stream) {
  return stream.lease_s > 0 ? `${formatDuration(stream.lease_s)}` : "adaptive";
}

function unitsText(stream) {
  const parts = [formatCount(stream.units)];
  if (stream.rows) parts.push(`rows ${stream.rows}`);
  if (stream.split) parts.push(`split ${stream.split}`);
  return parts.join(", ");
}

function definitionRows(stream) {
  const rows = [
    ["frame", stream.frame],
    ["digest", stream.digest.slice(0, 12), stream.digest, stream.digest],
    ["units", unitsText(stream)],
    ["design", designText(stream)],
    ["seed", stream.seed, "", stream.seed],
    ["epoch", formatCounted(stream.epoch_draws, "draw", "draws")],
    ["epochs", stream.epochs > 0 ? formatCount(stream.epochs) : "without end"],
    ["tail", stream.tail],
    ["lease", leaseText(stream)],
    ["position", formatCount(stream.position)],
  ];
  if (stream.generation > 1) rows.push(["generation", formatCount(stream.generation)]);
  return rows;
}

/** Rates while it runs; of a stream that stands still, where it stands. */
function numberRows(stream) {
  const state = stateOf(stream);
  const { at, left_s, byIndex } = progressOf(stream);
  const left = ["epoch left", formatCount(stream.epoch_draws - at)];
  const totals = byIndex ? [["batches read", formatCount(stream.read.batches)]] : [
    ["batches done", formatCount(stream.acked)],
    ["leased now", formatCount(stream.leased)],
    ["redelivered", formatCount(stream.redelivered), stream.rate.redeliveries > 0 ? "warn" : ""],
  ];
  if (state === "ended") {
    const first = stream.ended ? ["ended", formatClock(new Date(stream.ended * 1000))]
      : ["before the server started", "ended"];
    return [first, ...totals.filter(([what]) => what !== "leased now"), ["positions", formatCount(stream.position)]];
  }
  if (state === "paused") return [["no draws until it is resumed", "paused"], ...totals, left];
  if (state === "stalled") return [["nothing was drawn or read", paceText(stream), "warn"], ...totals, left];
  if (state === "read") return [[leftText(stream), paceText(stream)], ...totals];
  const rates = [["ids/s", formatRate(stream.rate.ids)], ["batches/s", formatRate(stream.rate.batches)]];
  if (!byIndex) rates.push(["acks/s", formatRate(stream.rate.acks)]);
  const end = stream.epochs > 0 && !byIndex ? ["to the end", formatDuration(stream.left_s)]
    : ["epoch left", formatDuration(left_s)];
  return [...rates, ...totals, end];
}

function showHint(stream, server) {
  const asked = [];
  if (stream.design !== "pxk") asked.push(`size=${Math.min(100, server.max_size)}`); // pxk has its own
  if (stream.name !== "default") asked.push(`stream=${stream.name}`);
  const target = new URL(asked.length > 0 ? `batch?${asked.join("&")}` : "batch", location.href).href;
  const token = server.guarded ? "-H 'Authorization: Bearer TOKEN' " : "";
  setText(byId("hint-command"), `curl ${token}'${target}'`);
  byId("hint-copy").dataset.copy = `curl ${token}'${target}'`;
  setHidden(byId("hint"), stream.state === "ended");
  const named = stream.name === "default" ? "labels" : `labels?stream=${stream.name}`;
  setText(byId("labels-link"), `/${named}`);
  setAttribute(byId("labels-link"), "href", named);
}

function showChosen(live) {
  const name = live.chosen ? live.chosen.name : "";
  const stream = live.chosen && live.streams.find((one) => one.name === name);
  setHidden(byId("chosen"), !stream);
  setHidden(byId("pair"), !stream);
  if (!stream) return;
  const all = { ...stream, ...live.chosen };
  setText(byId("chosen-title"), `Stream ${name}`);
  setNumbers(byId("rates"), numberRows(all));
  const highest = highestOf(all.history);
  setHidden(byId("rate-empty"), all.history.filter((value) => value !== null).length > 1); // a line has two points
  drawChart(byId("rate-chart"), all.history, highest);
  setText(byId("rate-begin"), `${formatDuration((chartPlaces(all.history) - 1) * all.history_s)} ago`);
  setText(byId("rate-caption"), highest > 0 ? `ids/s, at most ${formatShort(highest)}` : "ids/s");
  setFacts(byId("definition"), definitionRows(all));
  showHint(all, live.server);
  showActions(all, live.server);
  showSearch(all);
}
