// SPDX-License-Identifier: MIT
// Labels as drawn against as wanted: a bar of the share that was drawn, a mark where the share that
// the design wants ends. Of many labels the server sends the largest and the worst.

const LABEL = { text: 0, units: 1, drawn: 2, wanted: 3, minute: 4 };

function createLabel() {
  const bar = make("span", "balance", [make("span", "fill"), make("span", "mark")]);
  bar.setAttribute("aria-hidden", "true");
  return make("tr", "", [make("th", "label"), make("td", "bars", [bar]), make("td", "share"),
    make("td", "drawn"), make("td", "off"), make("td", "minute")]);
}

function updateLabel(row, label, labels, widest) {
  const drawn = labels.drawn > 0 ? label[LABEL.drawn] / labels.drawn : 0;
  const off = label[LABEL.drawn] - label[LABEL.wanted] * labels.drawn;
  const [name, bars, share, count, difference, minute] = row.children;
  setAttribute(name, "scope", "row");
  setAttribute(name, "dir", "auto");
  setText(name, String(label[LABEL.text]));
  setAttribute(name, "title", `${label[LABEL.text]}: ${formatCounted(label[LABEL.units], "unit", "units")}, ` +
    `${formatShare(label[LABEL.wanted])} wanted`);
  setLength(bars.firstChild, "--drawn", drawn / widest);
  setLength(bars.firstChild, "--wanted", label[LABEL.wanted] / widest);
  setText(share, formatShare(drawn));
  setText(count, formatCount(label[LABEL.drawn]));
  setText(difference, formatDifference(off));
  row.dataset.off = Math.abs(off) > 2 && Math.abs(off) > 4 * Math.sqrt(label[LABEL.wanted] * labels.drawn) ? "far" : "";
  setText(minute, formatCount(label[LABEL.minute]));
}

function createTable(group) {
  const heads = ["label", "", "share", "drawn", "off by", "last min"];
  const head = make("tr", "", heads.map((text) => make("th", "", text)));
  [...head.children].forEach((cell) => cell.setAttribute("scope", "col"));
  head.children[1].append(make("span", "unseen", "share drawn, with a mark at the share wanted"));
  return make("table", "labels", [make("caption", "", group.title), make("thead", "", [head]), make("tbody")]);
}

function widestOf(labels, rows) {
  const largest = (row) => Math.max(row[LABEL.wanted], labels.drawn > 0 ? row[LABEL.drawn] / labels.drawn : 0);
  return highestOf(rows.map(largest)) * 1.02 || 1;
}

function labelGroups(labels) {
  if (!labels.worst) return [{ title: "", rows: labels.rows }];
  return [
    { title: `The ${labels.rows.length} largest`, rows: labels.rows },
    { title: `The ${labels.worst.length} farthest off`, rows: labels.worst },
  ];
}

function drawnText(labels, chosen) {
  if (labels.drawn === 0 && chosen.readers.count > 0) return "what is read by index is not counted";
  return `epoch ${formatCount(labels.epoch)}, ${formatCount(labels.drawn)} drawn`;
}

function showLabels(chosen) {
  const labels = chosen && chosen.labels;
  setText(byId("labels-count"), labels ? formatCount(labels.count) : "");
  setText(byId("labels-epoch"), labels && labels.rows ? drawnText(labels, chosen) : "counting");
  const groups = labels && labels.rows ? labelGroups(labels) : [];
  const folder = byId("labels");
  folder.dataset.groups = groups.length;
  setChildren(folder, groups, (group) => group.title, createTable, (table, group) => {
    const widest = widestOf(labels, group.rows);
    setChildren(table.tBodies[0], group.rows, (row) => row[LABEL.text], createLabel,
      (row, label) => updateLabel(row, label, labels, widest));
  });
  setScrollable(folder);
}
