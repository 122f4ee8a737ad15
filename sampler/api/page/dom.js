// SPDX-License-Identifier: MIT
// The few ways in which this page touches the document. Text from the server (names of labels and
// workers are whatever somebody chose) only ever becomes textContent or a known attribute.

const SVG = "http://www.w3.org/2000/svg";

function byId(id) {
  return document.getElementById(id);
}

/** An element with class, text and children: make("p", "note", "text") or make("p", "", [a, b]). */
function make(tag, className, content) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (typeof content === "string") element.textContent = content;
  else if (content) element.append(...content);
  return element;
}

function makeSvg(tag, className) {
  const element = document.createElementNS(SVG, tag);
  element.setAttribute("class", className);
  return element;
}

/** Touches the document only when there is something new, so that selections survive. */
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function setAttribute(element, name, value) {
  if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

function setHidden(element, hidden) {
  if (element.hidden !== hidden) element.hidden = hidden;
}

/** What scrolls can be reached with the keyboard, and what does not is no stop on the way. */
function setScrollable(element) {
  if (element.scrollHeight > element.clientHeight + 1) setAttribute(element, "tabindex", "0");
  else element.removeAttribute("tabindex");
}

/** A custom property of the element's style, for widths that the style sheet draws. */
function setLength(element, name, share) {
  const value = `${(Math.min(1, Math.max(0, share)) * 100).toFixed(3)}%`;
  if (element.style.getPropertyValue(name) !== value) element.style.setProperty(name, value);
}

/**
 * Makes the children of `parent` those of `items`, in their order, one for each key: create(item)
 * builds a child, update(child, item) fills it. Children stay the same elements while their key is
 * there, so that focus and scrolling stay.
 */
function setChildren(parent, items, keyOf, create, update) {
  const old = new Map();
  for (const child of parent.children) old.set(child.itemKey, child);
  let at = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let child = old.get(key);
    old.delete(key);
    if (!child) {
      child = create(item);
      child.itemKey = key;
    }
    if (child === at) at = at.nextElementSibling;
    else parent.insertBefore(child, at);
    update(child, item);
  }
  for (const child of old.values()) child.remove();
}

/** A button that copies what its `dataset.copy` says when it is pressed. */
function makeCopy(what) {
  const button = make("button", "copy", "Copy");
  button.type = "button";
  button.setAttribute("aria-label", `Copy ${what}`);
  return button;
}

/** Fills a <dl> with [term, text, title, text to copy] rows. */
function setFacts(list, rows) {
  setChildren(list, rows, (row) => row[0],
    (row) => make("div", "", [make("dt", "", row[0]), make("dd", ""), ...(row[3] ? [makeCopy(row[0])] : [])]),
    (child, row) => {
      const [, text, copy] = child.children;
      setText(text, row[1]);
      setAttribute(text, "title", row[2] || "");
      if (copy) copy.dataset.copy = row[3];
    });
}

/** A colour for whoever has this name, the same on every page; w0, w1, w2 ... are far apart. */
function setColor(element, name) {
  const [number] = name.match(/\d*$/);
  let hash = 0;
  for (const letter of name.slice(0, name.length - number.length)) hash = (hash * 31 + letter.codePointAt(0)) % 360;
  element.style.setProperty("--hue", ((hash + Number(number) * 137.508) % 360).toFixed(1));
}
