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

/**
 * Where it is: the position within an epoch, and which. Draws move it; where there are none, the
 * furthest of those who read by index does.
 */
function progressOf(stream) {
  const { read, epoch_draws: draws } = stream;
  if (stream.state === "ended") return { at: draws, epoch: Math.max(0, stream.epoch - 1), left_s: null };
  if (stream.position > 0 || !read) {
    return { at: stream.position - stream.epoch * draws, epoch: stream.epoch, left_s: stream.epoch_left_s };
  }
  return { at: read.position - read.epoch * draws, epoch: read.epoch, left_s: read.epoch_left_s, byIndex: true };
}

/** Epochs count from 0, so that "0 of 1" would mislead: how many come behind it is said. */
function epochText(stream, { epoch, byIndex }) {
  const text = `${byIndex ? "by index · " : ""}epoch ${formatCount(epoch)}`;
  if (stream.epochs === 0) return text;
  const more = stream.epochs - 1 - epoch;
  if (more > 0) return `${text}, ${formatCount(more)} more`;
  return stream.epochs === 1 ? `${text}, the only one` : `${text}, the last`;
}

/** Read to its end: whoever reads by index ends there, and the stream does not know of it. */
function isRead(stream) {
  const { at, epoch, byIndex } = progressOf(stream);
  return Boolean(byIndex) && at === stream.epoch_draws && stream.epochs > 0 && epoch === stream.epochs - 1;
}

/** The state as people see it: a running stream that nobody draws from is "stalled". */
function stateOf(stream) {
  if (stream.state !== "running") return stream.state;
  if (isRead(stream)) return "read";
  return stream.stalled ? "stalled" : "running";
}

/** What a running stream's rate is; of another one the last seconds say nothing. */
function paceText(stream) {
  const state = stateOf(stream);
  if (state === "running") return `${formatRate(stream.rate.ids)} ids/s`;
  if (state === "stalled") return `stalled ${formatDuration(stream.idle_s)}`;
  if (state === "read") return "read to the end";
  return stream.ended ? `ended ${formatClock(new Date(stream.ended * 1000))}` : state;
}

function leftText(stream) {
  const state = stateOf(stream);
  const { at, left_s } = progressOf(stream);
  if (state === "ended") return `after ${formatCounted(stream.acked, "batch", "batches")}`;
  if (state === "read") return `${formatDuration(stream.idle_s)} ago`;
  if (state !== "running") return `${formatCount(stream.epoch_draws - at)} left in the epoch`;
  if (left_s !== null) return `${formatDuration(left_s)} to the epoch's end`;
  if (stream.idle_s !== null) return `last ${formatDuration(stream.idle_s)} ago`;
  return at > 0 ? "nothing since the server started" : "nothing drawn yet";
}

function createStream(stream) {
  const link = make("a", "name");
  link.href = `#stream=${encodeURIComponent(stream.name)}`;
  const bar = make("div", "bar", [make("div", "fill"), make("div", "mark")]);
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

/** Beside draws, a mark says how far the stream was read by index. */
function updateReadMark(mark, stream, progress) {
  const { read, epoch_draws: draws } = stream;
  const shown = Boolean(read) && !progress.byIndex;
  setHidden(mark, !shown);
  if (!shown) return;
  setLength(mark, "--read", (read.position - read.epoch * draws) / draws);
  setAttribute(mark, "title", `read by index up to ${formatCount(read.position)}, epoch ${formatCount(read.epoch)}`);
}

function updateStream(row, stream, chosen) {
  const find = (selector) => row.querySelector(selector);
  const progress = progressOf(stream);
  const share = stream.epoch_draws > 0 ? progress.at / stream.epoch_draws : 0;
  row.dataset.state = stateOf(stream);
  const link = find(".name");
  if (stream.name === chosen) setAttribute(link, "aria-current", "true");
  else link.removeAttribute("aria-current");
  setText(find(".chip"), stateOf(stream));
  const frame = stream.frame === "default" ? "" : `${stream.frame} · `;
  setText(find(".what"), `${frame}${designText(stream)} · ${formatCounted(stream.units, "unit", "units")}`);
  setLength(find(".bar"), "--at", share);
  setAttribute(find(".bar"), "aria-valuenow", Math.floor(share * 100));
  updateReadMark(find(".bar .mark"), stream, progress);
  setText(find(".epoch"), `${formatPercent(share)}${progress.byIndex ? " " : " · "}${epochText(stream, progress)}`);
  setText(find(".place"), `${formatCount(progress.at)} of ${formatCount(stream.epoch_draws)}`);
  setText(find(".now"), paceText(stream));
  setText(find(".left"), leftText(stream));
  drawChart(find(".spark"), stream.history, highestOf(stream.history));
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
