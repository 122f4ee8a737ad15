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

function showView(title, text) {
  const view = byId("view");
  setText(byId("view-title"), title);
  setText(byId("view-text"), text);
  byId("view-copy").dataset.copy = text;
  if (!view.open) view.showModal();
}

async function openView(path) {
  showView(`/${path}`, "Asking the server");
  const text = await viewText(path);
  if (byId("view-title").textContent === `/${path}`) showView(`/${path}`, text);
}

function prepareDialogs() {
  for (const dialog of document.querySelectorAll("dialog")) {
    dialog.querySelector(".close").addEventListener("click", () => dialog.close());
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog) dialog.close(); // beside it
    });
  }
  byId("help-open").addEventListener("click", () => byId("help").showModal());
}
