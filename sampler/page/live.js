// Asks the server for /live.json once a second while somebody looks, and shows what it says. When
// the server does not answer, it says since when, and tries again for as long as it takes.

const EVERY_MS = 1000;
const SOON_MS = 200; // for a balance of labels that is being made
const PATIENCE_MS = 8000;
const SLOWEST_MS = 8000;
const TOKEN_KEY = "tombola-token";

const link = { timer: 0, busy: null, failures: 0, lostAt: null, soon: false };

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

function showLink(kind, text) {
  setAttribute(byId("link"), "data-kind", kind);
  setText(byId("link-text"), text);
}

function showServer(server) {
  const kept = server.durability;
  setFacts(byId("server"), [
    ["version", server.version],
    ["up", formatDuration(server.now - server.started)],
    ["draws survive", { fsync: "power loss", process: "kill -9", none: "an orderly stop" }[kept] || "nothing",
      kept ? `--durability ${kept}` : "no --state: a new start begins anew"],
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
  setHidden(byId("access"), true);
  setHidden(byId("board"), live.streams.length === 0);
  byId("board").classList.remove("old");
  showServer(server);
  showStreams(live, chosen ? chosen.name : "");
  showChosen(live);
  showLabels(chosen);
  showWorkers(chosen);
}

function showLost() {
  if (!link.lostAt) link.lostAt = new Date();
  showLink("lost", `not reachable since ${formatClock(link.lostAt)}, trying again`);
  byId("board").classList.add("old");
}

function showWrongToken(why) {
  setText(byId("access-why"), why);
  setHidden(byId("access-why"), !why);
}

/** 401 and 403: nothing helps but another token. */
function showAccess(status) {
  const sent = vault.get() !== "";
  const why = status === 403 ? "The token is known, but lacks the scope read (403)."
    : sent ? "The server does not know this token (401)." : "";
  showLink("waiting", status === 403 ? "not allowed" : "needs a token");
  setHidden(byId("board"), true);
  const first = byId("access").hidden;
  setHidden(byId("access"), false);
  showWrongToken(why);
  if (first) byId("token").focus();
}

async function ask(signal) {
  const headers = { Accept: "application/json" };
  const token = vault.get();
  if (token) headers.Authorization = `Bearer ${token}`;
  const answer = await fetch(`live.json?stream=${encodeURIComponent(chosenName())}`,
    { headers, signal, cache: "no-store", credentials: "omit" });
  if (answer.status === 401 || answer.status === 403) return showAccess(answer.status);
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  const live = await answer.json();
  link.lostAt = null;
  link.failures = 0;
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
  } catch {
    if (link.busy !== busy) return; // a later poll took over
    link.failures += 1;
    link.soon = false;
    showLost();
  } finally {
    clearTimeout(patience);
  }
  if (link.busy !== busy) return;
  link.busy = null;
  if (document.hidden || !byId("access").hidden) return;
  link.timer = setTimeout(poll, link.soon ? SOON_MS : Math.min(SLOWEST_MS, EVERY_MS * 2 ** Math.max(0, link.failures - 2)));
}

byId("access").addEventListener("submit", (event) => {
  event.preventDefault();
  const token = byId("token").value.trim();
  byId("token").value = "";
  if (/^[\x21-\x7e]+$/.test(token)) {
    vault.set(token);
    poll();
  } else {
    showWrongToken("A token is of printable ASCII characters without spaces.");
  }
});
addEventListener("hashchange", poll);
addEventListener("online", poll);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) poll();
});
prepareChart(byId("rate-chart"));
setText(byId("origin"), location.origin);
poll();
