// SPDX-License-Identifier: MIT
// Numbers and times as people read them. Every function takes null for "not known".

const UNKNOWN = "–";
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** 1234567 -> "1,234,567". */
function formatCount(value) {
  return value === null || value === undefined ? UNKNOWN : whole.format(value);
}

/** "1 batch", "1,234 batches". */
function formatCounted(value, one, many) {
  return `${formatCount(value)} ${value === 1 ? one : many}`;
}

/** Three digits that matter: 0.042, 3.14, 98.6, 12,345. */
function formatRate(value) {
  if (value === null || value === undefined) return UNKNOWN;
  if (value === 0) return "0";
  if (value < 0.01) return "< 0.01";
  if (value < 10) return value.toFixed(2);
  return value < 100 ? value.toFixed(1) : whole.format(value);
}

/** 1234567 -> "1.23 M": for a rate that only needs to be seen. */
function formatShort(value) {
  if (value === null || value === undefined) return UNKNOWN;
  for (const [size, unit] of [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e4, " k"]]) {
    if (value >= size) return (value / (unit === " k" ? 1e3 : size)).toPrecision(3) + unit;
  }
  return formatRate(value);
}

/** Seconds as the two largest units: "3 d 4 h", "12 min 5 s", "8 s". */
function formatDuration(seconds) {
  if (seconds === null || seconds === undefined) return UNKNOWN;
  if (seconds >= 3155760000) return "over 100 years";
  const left = Math.round(seconds);
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([size]) => left >= size);
  if (first < 0) return seconds > 0 ? "< 1 s" : "0 s";
  const [size, unit] = parts[first];
  const text = `${formatCount(Math.floor(left / size))} ${unit}`;
  const next = parts[first + 1];
  const rest = next ? Math.floor((left % size) / next[0]) : 0;
  return rest > 0 ? `${text} ${rest} ${next[1]}` : text;
}

/** Milliseconds since something: "now", "8 s", "12 min 5 s". */
function formatAge(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) return UNKNOWN;
  return milliseconds < 1000 ? "now" : formatDuration(Math.floor(milliseconds / 1000));
}

/** A share of 1 as per cent that never says 100 before it is all. */
function formatPercent(share) {
  return share >= 1 ? "100 %" : `${(Math.floor(share * 1000) / 10).toFixed(1)} %`;
}

/** A share with three digits that matter, however small. */
function formatShare(share) {
  const percent = share * 100;
  if (percent === 0 || percent >= 0.995) return `${percent.toFixed(percent >= 9.995 ? 1 : 2)} %`;
  return `${percent.toPrecision(2)} %`;
}

/** +0.4, −1.2, ±0. */
function formatDifference(value) {
  const size = Math.abs(value);
  if (size < 0.05) return "±0";
  return (value > 0 ? "+" : "−") + (size < 100 ? size.toFixed(1) : whole.format(size));
}

/** The time of day on this machine's clock; the day too when it is another one. */
function formatClock(date) {
  const time = date.toLocaleTimeString("en-GB");
  if (date.toDateString() === new Date().toDateString()) return time;
  return `${date.toLocaleDateString("en-GB", { day: "numeric", month: "short" })}, ${time}`;
}
