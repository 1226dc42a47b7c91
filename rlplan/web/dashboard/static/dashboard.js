// Keeps the page of a sweep up to date: hears which sections have changed, and has htmx fetch those.
(() => {
  "use strict";
  const SILENT_MS = 25000; // the server says something every 10 s
  const RETRY_MS = 1500;
  const TOGETHER_MS = 250;
  const top = document.querySelector("[data-events]");
  if (!top) return;
  const label = top.querySelector(".link-state");
  const updated = top.querySelector(".updated");
  const hold = document.getElementById("hold");
  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  let source = null;
  let heardAt = Date.now();
  let latest = null;
  let held = false;
  let retry = 0;
  let due = 0;

  function show(state, text) {
    top.dataset.link = state;
    label.textContent = text;
  }

  function showTime(iso) {
    const at = new Date(iso);
    updated.textContent = "updated " + clock.format(at);
    updated.title = iso;
  }

  function connect() {
    clearTimeout(retry);
    disconnect();
    source = new EventSource(top.dataset.events);
    heardAt = Date.now();
    source.onopen = () => { heardAt = Date.now(); };
    source.addEventListener("beat", () => { heardAt = Date.now(); });
    source.addEventListener("state", (event) => {
      heardAt = Date.now();
      hear(JSON.parse(event.data));
    });
    source.onerror = lose;
  }

  function disconnect() {
    if (source) source.close();
    source = null;
  }

  function lose() {
    disconnect();
    show("lost", "lost connection, trying again");
    clearTimeout(retry);
    retry = setTimeout(connect, RETRY_MS);
  }

  function hear(message) {
    if (message.trouble) {
      show("lost", message.trouble);
      return;
    }
    latest = { ...message, asked: new Set() };
    if (held) return;
    show("live", "live");
    showTime(message.read_at);
    clearTimeout(due);
    due = setTimeout(renew, TOGETHER_MS);
  }

  // A section that is not on the page yet is fetched when the reader gets there, and is new then.
  function renew() {
    if (!latest || held) return;
    for (const section of document.querySelectorAll("[data-part]")) {
      const name = section.dataset.part;
      const version = latest.versions[name];
      if (!section.dataset.version || section.dataset.version === version) continue;
      if (version === undefined) { // not drawn there: asking for it has it drawn, and kept up to date
        if (latest.asked.has(name)) continue;
        latest.asked.add(name);
      }
      if (section.contains(document.activeElement) && isTyping(document.activeElement)) continue;
      if (!section.classList.contains("htmx-request")) htmx.trigger(section, "changed");
    }
  }

  function isTyping(element) {
    return element.matches("input, select, textarea");
  }

  function holdOrGoOn() {
    held = !held;
    hold.textContent = held ? "Go on updating" : "Pause updates";
    if (held) show("paused", "paused");
    else if (latest) hear(latest);
    else connect();
  }

  // htmx fetches; the page's own script puts it in place, since it keeps zoom, filters and what was opened.
  document.addEventListener("htmx:beforeSwap", (event) => {
    const part = event.detail.target;
    if (!part.matches("[data-part]")) return;
    event.detail.shouldSwap = false;
    if (event.detail.xhr.status !== 200) return;
    part.dataset.version = event.detail.xhr.getResponseHeader("x-version") || "";
    part.dataset.renewed = String(Number(part.dataset.renewed || 0) + 1);
    rlplan.replace(part.firstElementChild, event.detail.serverResponse);
    // It may have changed again while it was fetched.
    clearTimeout(due);
    due = setTimeout(renew, TOGETHER_MS);
  });
  document.addEventListener("submit", (event) => {
    const text = event.submitter && event.submitter.dataset.confirm;
    if (text && !window.confirm(text)) event.preventDefault();
  });
  // A browser opens six connections to a host; tabs that nobody sees do not keep one.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      clearTimeout(retry);
      disconnect();
    } else if (!source) connect();
  });
  setInterval(() => {
    if (source && Date.now() - heardAt > SILENT_MS) lose();
  }, 1000);

  hold.hidden = false;
  hold.addEventListener("click", holdOrGoOn);
  show("waiting", "connecting");
  showTime(top.dataset.readAt);
  connect();
})();
