// SPDX-License-Identifier: MIT
// The list of streams. A click or Enter on one chooses it; the choice stands in the address.

function chosenName() {
  const match = location.hash.match(/^#stream=(.+)$/);
  if (!match) return "default";
  try {
    return decodeURIComponent(match[1]);
  } catch {
    return "default";
  }
}

function designText(stream) {
  const fields = Object.entries(stream.fields || {})
    .map(([key, value]) => `${key} ${typeof value === "object" ? JSON.stringify(value) : value}`);
  const words = [stream.design, ...fields];
  if (stream.replacement) words.push("with replacement");
  return words.join(", ");
}

/** Position within the epoch that is being drawn; a whole epoch at the stream's end. */
function epochPosition(stream) {
  if (stream.state === "ended") return stream.epoch_draws;
  return stream.position - stream.epoch * stream.epoch_draws;
}

/** Epochs count from 0, so that "0 of 1" would mislead: how many come behind it is said. */
function epochText(stream) {
  const epoch = stream.state === "ended" ? Math.max(0, stream.epoch - 1) : stream.epoch;
  const text = `epoch ${formatCount(epoch)}`;
  if (stream.epochs === 0) return text;
  const more = stream.epochs - 1 - epoch;
  if (more > 0) return `${text}, ${formatCount(more)} more`;
  return stream.epochs === 1 ? `${text}, the only one` : `${text}, the last`;
}

/** What a running stream's rate is; of another one the last minute says nothing. */
function paceText(stream) {
  if (stream.state === "running") return `${formatRate(stream.rate.ids)} ids/s`;
  if (stream.state !== "ended") return stream.state;
  return stream.ended ? `ended ${formatClock(new Date(stream.ended * 1000))}` : "ended";
}

function leftText(stream) {
  if (stream.state === "ended") return `after ${formatCounted(stream.acked, "batch", "batches")}`;
  if (stream.state === "paused") return `${formatCount(stream.epoch_draws - epochPosition(stream))} left in the epoch`;
  if (stream.epoch_left_s === null) return "nothing in the last minute";
  return `${formatDuration(stream.epoch_left_s)} to the epoch's end`;
}

function createStream(stream) {
  const link = make("a", "name");
  link.href = `#stream=${encodeURIComponent(stream.name)}`;
  const bar = make("div", "bar", [make("div", "fill")]);
  bar.setAttribute("role", "progressbar");
  bar.setAttribute("aria-valuemin", "0");
  bar.setAttribute("aria-valuemax", "100");
  bar.setAttribute("aria-label", `Epoch of stream ${stream.name}`);
  const spark = makeSvg("svg", "spark");
  spark.setAttribute("preserveAspectRatio", "none");
  spark.setAttribute("aria-hidden", "true");
  prepareChart(spark);
  const row = make("li", "stream", [
    make("div", "who", [make("div", "title", [link, make("span", "chip")]), make("div", "note what")]),
    make("div", "progress", [bar, make("div", "under", [make("span", "epoch"), make("span", "note place")])]),
    make("div", "speed", [make("div", "", [make("div", "big now"), make("div", "note left")]), spark]),
  ]);
  setText(link, stream.name);
  return row;
}

function updateStream(row, stream, chosen) {
  const find = (selector) => row.querySelector(selector);
  const at = epochPosition(stream);
  const share = stream.epoch_draws > 0 ? at / stream.epoch_draws : 0;
  row.dataset.state = stream.state;
  const link = find(".name");
  if (stream.name === chosen) setAttribute(link, "aria-current", "true");
  else link.removeAttribute("aria-current");
  setText(find(".chip"), stream.state);
  const frame = stream.frame === "default" ? "" : `${stream.frame} · `;
  setText(find(".what"), `${frame}${designText(stream)} · ${formatCounted(stream.units, "unit", "units")}`);
  setLength(find(".bar"), "--at", share);
  setAttribute(find(".bar"), "aria-valuenow", Math.floor(share * 100));
  setText(find(".epoch"), `${formatPercent(share)} · ${epochText(stream)}`);
  setText(find(".place"), `${formatCount(at)} of ${formatCount(stream.epoch_draws)}`);
  setText(find(".now"), paceText(stream));
  setText(find(".left"), leftText(stream));
  drawChart(find(".spark"), stream.history, stream.history_slots, highestOf(stream.history));
}

function showStreams(live, chosen) {
  setText(byId("streams-count"), live.streams_count > 1 ? formatCount(live.streams_count) : "");
  setChildren(byId("streams"), live.streams, (stream) => `${stream.name}\n${stream.generation}`,
    createStream, (row, stream) => updateStream(row, stream, chosen));
  const more = live.streams_count - live.streams.length;
  setHidden(byId("streams-note"), more <= 0);
  setText(byId("streams-note"), `${formatCount(more)} more: /streams lists them all.`);
  setScrollable(byId("streams"));
  showRow(chosen);
}

/** Scrolls the list, not the page, when another stream is chosen. */
function showRow(chosen) {
  const list = byId("streams");
  if (list.dataset.shown === chosen) return;
  list.dataset.shown = chosen;
  const row = list.querySelector("[aria-current]")?.closest("li");
  if (!row) return;
  const above = row.offsetTop - list.offsetTop - list.scrollTop;
  if (above < 0 || above + row.offsetHeight > list.clientHeight) list.scrollTop += above - list.clientHeight / 3;
}
