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
    ["digest", stream.digest.slice(0, 12), stream.digest],
    ["units", unitsText(stream)],
    ["design", designText(stream)],
    ["seed", stream.seed],
    ["epoch", `${formatCount(stream.epoch_draws)} draws`],
    ["epochs", stream.epochs > 0 ? formatCount(stream.epochs) : "without end"],
    ["tail", stream.tail],
    ["lease", leaseText(stream)],
    ["position", formatCount(stream.position)],
  ];
  if (stream.generation > 1) rows.push(["generation", formatCount(stream.generation)]);
  return rows;
}

function timeLeft(stream) {
  if (stream.state === "ended") return "0 s";
  return formatDuration(stream.epochs > 0 ? stream.left_s : stream.epoch_left_s);
}

function showChosen(live) {
  const name = live.chosen ? live.chosen.name : "";
  const stream = live.chosen && live.streams.find((one) => one.name === name);
  setHidden(byId("chosen"), !stream);
  setHidden(byId("pair"), !stream);
  if (!stream) return;
  const all = { ...stream, ...live.chosen };
  setText(byId("chosen-title"), `Stream ${name}`);
  setNumbers(byId("rates"), [
    ["ids/s", formatRate(all.rate.ids)],
    ["batches/s", formatRate(all.rate.batches)],
    ["acks/s", formatRate(all.rate.acks)],
    ["batches done", formatCount(all.acked)],
    ["lent now", formatCount(all.leased)],
    ["lent again", formatCount(all.redelivered), all.rate.redeliveries > 0 ? "warn" : ""],
    [all.epochs > 0 ? "to the end" : "epoch left", timeLeft(all)],
  ]);
  const highest = highestOf(all.history);
  drawChart(byId("rate-chart"), all.history, all.history_slots, highest);
  setText(byId("rate-caption"), highest > 0 ? `ids/s, at most ${formatShort(highest)}` : "ids/s: none were drawn");
  setFacts(byId("definition"), definitionRows(all));
}
