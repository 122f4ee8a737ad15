// SPDX-License-Identifier: MIT
// Asks the server for /live.json once a second while somebody looks, and shows what it says. When
// the server does not answer, it says since when, and tries again for as long as it takes.

const EVERY_MS = 1000;
const SOON_MS = 200; // for a balance of labels that is being made
const QUIET_S = 3; // without an answer: what is shown is old
const PATIENCE_MS = 6000;
const SLOWEST_MS = 8000;
const TOKEN_KEY = "tombola-token";

const link = {
  timer: 0,
  busy: null,
  failures: 0,
  answeredAt: null, // by the clock; null: never
  lostAt: null,
  quietFrom: 0, // of performance.now(): the last answer, or when somebody began to look
  guarded: false, // the server asks for tokens
  wantsToken: false, // somebody is typing one, though the server shows what it has
  soon: false,
};

/** Where storage is forbidden, the token lives as long as the page. */
const vault = {
  token: "",
  get() {
    try {
      return sessionStorage.getItem(TOKEN_KEY) || this.token;
    } catch {
      return this.token;
    }
  },
  set(token) {
    this.token = token;
    try {
      if (token) sessionStorage.setItem(TOKEN_KEY, token);
      else sessionStorage.removeItem(TOKEN_KEY);
    } catch {
      // it is kept above
    }
  },
};

/** Those who listen hear of it when it changes, not of every second of it. */
function showLink(kind, text) {
  if (byId("link").dataset.kind !== kind) setText(byId("link-said"), text);
  setAttribute(byId("link"), "data-kind", kind);
  setText(byId("link-text"), text);
}

function showOld(old) {
  byId("board").classList.toggle("old", old);
}

function showServer(server) {
  const kept = server.durability;
  setFacts(byId("server"), [
    ["version", server.version],
    ["up", formatDuration(server.now - server.started)],
    ["state", { fsync: "survives power loss", process: "survives kill -9", none: "kept by an orderly stop" }[kept] || "not kept",
      kept ? `--durability ${kept}` : "no --state: a restart begins at position 0"],
  ]);
  setHidden(byId("failure"), !server.failing);
  setText(byId("failure"), server.failing ? `Draws are refused: the state cannot be written. ${server.failing}` : "");
}

function showLive(live) {
  const { server, chosen } = live;
  const wait = { starting: "starting: the frame is being read", stopping: "stopping" }[server.phase];
  if (wait) showLink("waiting", wait);
  else if (server.failing) showLink("failing", "refusing draws");
  else showLink("live", "live");
  setHidden(byId("access"), !link.wantsToken);
  setHidden(byId("board"), live.streams.length === 0);
  setHidden(byId("starting"), live.streams.length > 0);
  setHidden(byId("links"), false);
  showOld(false);
  link.guarded = server.guarded;
  showServer(server);
  showStreams(live, chosen ? chosen.name : "");
  showChosen(live);
  showLabels(chosen);
  showWorkers(chosen);
  showReaders(chosen, live.streams);
}

function showLost(status) {
  if (!link.lostAt) link.lostAt = link.answeredAt || new Date();
  const what = status ? `answers with status ${status}` : "not reachable";
  showLink("lost", `${what} since ${formatClock(link.lostAt)}, trying again`);
  showOld(true);
}

/** The server has the question and says nothing: that is to be seen before it is given up. */
function showQuiet() {
  const seconds = Math.floor((performance.now() - link.quietFrom) / 1000);
  if (document.hidden || !link.busy || link.failures > 0 || seconds < QUIET_S) return;
  showLink("quiet", `no answer for ${seconds} s`);
  showOld(true);
}

function noteAnswer() {
  link.answeredAt = new Date();
  link.quietFrom = performance.now();
  link.lostAt = null;
  link.failures = 0;
}

function showWrongToken(why) {
  setText(byId("access-why"), why);
  setHidden(byId("access-why"), !why);
}

function askForToken(why) {
  link.wantsToken = true;
  setHidden(byId("access"), false);
  showWrongToken(why);
  byId("token").focus();
}

/** 401 and 403: nothing helps but another token. */
function showAccess(status) {
  link.wantsToken = false;
  const sent = vault.get() !== "";
  const why = status === 403 ? "The token is known, but lacks the scope read (403)."
    : sent ? "The server does not know this token (401)." : "";
  showLink("waiting", status === 403 ? "not allowed" : "needs a token");
  for (const id of ["board", "starting", "links"]) setHidden(byId(id), true);
  const first = byId("access").hidden;
  setHidden(byId("access"), false);
  showWrongToken(why);
  if (first) byId("token").focus();
}

function fetchHere(path, signal, method = "GET") {
  const token = vault.get();
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  return fetch(path, { method, headers, signal, cache: "no-store", credentials: "omit" });
}

async function ask(signal) {
  const answer = await fetchHere(`live.json?stream=${encodeURIComponent(chosenName())}`, signal);
  if (answer.status === 401 || answer.status === 403) {
    noteAnswer();
    return showAccess(answer.status);
  }
  if (!answer.ok) throw answer.status;
  const live = await answer.json();
  noteAnswer();
  link.soon = live.chosen && !live.chosen.labels && !link.soon;
  return showLive(live);
}

async function poll() {
  clearTimeout(link.timer);
  if (link.busy) link.busy.abort();
  const busy = new AbortController();
  const patience = setTimeout(() => busy.abort(), PATIENCE_MS);
  link.busy = busy;
  try {
    await ask(busy.signal);
  } catch (failure) {
    if (link.busy !== busy) return; // a later poll took over
    link.failures += 1;
    link.soon = false;
    showLost(typeof failure === "number" ? failure : 0);
  } finally {
    clearTimeout(patience);
  }
  if (link.busy !== busy) return;
  link.busy = null;
  if (document.hidden || (!byId("access").hidden && !link.wantsToken)) return;
  link.timer = setTimeout(poll, link.soon ? SOON_MS : Math.min(SLOWEST_MS, EVERY_MS * 2 ** Math.max(0, link.failures - 2)));
}

byId("access").addEventListener("submit", (event) => {
  event.preventDefault();
  const token = byId("token").value.trim();
  byId("token").value = "";
  if (/^[\x21-\x7e]+$/.test(token)) {
    vault.set(token);
    link.wantsToken = false;
    poll();
  } else {
    showWrongToken("A token is of printable ASCII characters without spaces.");
  }
});
addEventListener("hashchange", poll);
addEventListener("online", poll);
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return;
  link.quietFrom = performance.now();
  poll();
});
for (const kind of ["click", "auxclick"]) {
  byId("links").addEventListener(kind, (event) => {
    const anchor = event.target.closest("a");
    if (!anchor || !link.guarded) return;
    event.preventDefault();
    openView(anchor.getAttribute("href"));
  });
}
prepareChart(byId("rate-chart"));
prepareDialogs();
prepareActions();
prepareSearch();
prepareCopying();
setInterval(showQuiet, 500);
poll();
