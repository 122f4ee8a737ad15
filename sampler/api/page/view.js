// SPDX-License-Identifier: MIT
// What a link of the footer leads to, shown in the page: a link cannot carry a token.

const VIEW_PATIENCE_MS = 30000;

/** JSON with an object a line; digits stay as they are, since 64 bits would not survive a parser. */
function readable(text) {
  return text.replace(/"(?:[^"\\]|\\.)*"|\},\{/g, (part) => (part === "},{" ? "},\n{" : part));
}

async function viewText(path) {
  try {
    const answer = await fetchHere(path, AbortSignal.timeout(VIEW_PATIENCE_MS));
    return readable(await answer.text());
  } catch {
    return "The server did not answer.";
  }
}

async function openView(path) {
  const view = byId("view");
  setText(byId("view-title"), `/${path}`);
  setText(byId("view-text"), "Asking the server");
  if (!view.open) view.showModal();
  const text = await viewText(path);
  if (byId("view-title").textContent === `/${path}`) setText(byId("view-text"), text);
}

function prepareView() {
  const view = byId("view");
  byId("view-close").addEventListener("click", () => view.close());
  view.addEventListener("click", (event) => {
    if (event.target === view) view.close(); // beside it
  });
}
