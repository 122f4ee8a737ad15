# SPDX-License-Identifier: MIT
"""Draws the dashboard of deploy/k8s/overlays/monitoring from what a Prometheus knows: panels with their titles, units and
legends, where Grafana would place them. To look at it where there is no Grafana:

    deploy/install page
    /usr/bin/python3 tests/service/dashboard_picture.py http://127.0.0.1:9090 dashboard.png --seconds 600 --rate 1m
"""

import argparse
import re
import time

import monitoring

ROW_HEIGHT, COLUMNS, INCHES = 8, 24, 0.75  # of Grafana's grid; an eighth of a panel's height
UNITS = {"s": "s", "ops": "a second", "reqps": "a second", "percentunit": "share", "none": ""}


def series(url, expression, seconds):
    """[(labels, [(when, value)])] of the last seconds; when: in seconds from now, below 0."""
    now = time.time()
    found = monitoring.ask(url, "query_range", query=expression, start=now - seconds, end=now, step=max(seconds / 300, 0.5))["result"]
    return [(one["metric"], [(float(when) - now, float(value)) for when, value in one["values"]]) for one in found]


def legend(text, labels):
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), text)


def fill(axes, panel, url, seconds, rate):
    """The series of a panel; how many there are."""
    count = 0
    for target in panel["targets"]:
        for labels, points in series(url, target["expr"].replace("$__rate_interval", rate), seconds):
            axes.plot(*zip(*points), label=legend(target["legendFormat"], labels), linewidth=1)
            count += 1
    axes.set_title(panel["title"], fontsize=9, loc="left")
    axes.set_ylabel(UNITS[panel["fieldConfig"]["defaults"]["unit"]], fontsize=7)
    axes.tick_params(labelsize=7)
    axes.set_xlim(-seconds, 0)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    if count:
        axes.legend(fontsize=6, loc="upper left")
    return count


def draw(url, path, seconds, rate):
    """{title of a panel: how many series it shows}."""
    import matplotlib  # pylint: disable=import-outside-toplevel
    matplotlib.use("Agg")
    from matplotlib import pyplot  # pylint: disable=import-outside-toplevel
    panels = monitoring.dashboard()["panels"]
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    figure = pyplot.figure(figsize=(COLUMNS * INCHES, height / ROW_HEIGHT * 2.6))
    shown = {}
    for panel in panels:
        at = panel["gridPos"]
        left, top = at["x"] / COLUMNS, 1 - at["y"] / height
        if panel["type"] == "row":
            figure.text(left + 0.01, top - 0.6 / height, panel["title"], fontsize=12, weight="bold", va="center")
            continue
        box = (left + 0.035, top - (at["h"] - 1.2) / height, at["w"] / COLUMNS - 0.05, (at["h"] - 2.4) / height)
        shown[panel["title"]] = fill(figure.add_axes(box), panel, url, seconds, rate)
    figure.savefig(path, dpi=90)
    pyplot.close(figure)
    return shown


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("url", help="of a Prometheus")
    parser.add_argument("picture", help="a file to write, .png or .svg")
    parser.add_argument("--seconds", type=float, default=900, help="how far back it looks (default 900)")
    parser.add_argument("--rate", default="2m", help="what Grafana would take for $__rate_interval (default 2m)")
    words = parser.parse_args()
    for title, count in draw(words.url, words.picture, words.seconds, words.rate).items():
        print(f"{title}: {count} series")


if __name__ == "__main__":
    main()
