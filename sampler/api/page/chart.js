// SPDX-License-Identifier: MIT
// The line of a rate over the last 15 minutes.

const CHART_WIDTH = 360;
const CHART_HEIGHT = 100;

/** A chart's parts, inside an <svg> that is there. */
function prepareChart(svg) {
  svg.setAttribute("viewBox", `0 0 ${CHART_WIDTH} ${CHART_HEIGHT}`);
  svg.append(makeSvg("path", "area"), makeSvg("path", "line"));
}

/** The places of the axis: as many as there are values to show. */
function chartPlaces(values) {
  return Math.max(2, values.length);
}

/** Draws `values` (null: the server was not there yet), the newest at the right edge. */
function drawChart(svg, values, highest) {
  const step = CHART_WIDTH / (chartPlaces(values) - 1);
  const scale = highest > 0 ? (CHART_HEIGHT - 6) / highest : 0;
  const points = [];
  values.forEach((value, i) => {
    if (value === null) return;
    const x = CHART_WIDTH - (values.length - 1 - i) * step;
    points.push(`${x.toFixed(1)} ${(CHART_HEIGHT - 2 - value * scale).toFixed(1)}`);
  });
  const line = points.length > 0 ? `M${points.join("L")}` : "";
  const area = line && `${line}L${CHART_WIDTH} ${CHART_HEIGHT}L${points[0].split(" ")[0]} ${CHART_HEIGHT}Z`;
  setAttribute(svg.querySelector(".area"), "d", area);
  setAttribute(svg.querySelector(".line"), "d", line);
}

function highestOf(values) {
  return values.reduce((highest, value) => (value > highest ? value : highest), 0);
}
