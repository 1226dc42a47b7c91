// Keeps the page of a sweep up to date: asks which sections have changed, and has htmx fetch those.
(() => {
  "use strict";
  const ASK_MS = 1000;
  const TOGETHER_MS = 250;
  const top = document.querySelector("[data-state]");
  if (!top) return;
  const label = top.querySelector(".link-state");
  const updated = top.querySelector(".updated");
  const hold = document.getElementById("hold");
  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  let latest = null;
  let tag = null; // of the newest answer: the server says whether there is another
  let held = false;
  let asking = 0;
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

  // A tab that nobody sees asks nothing.
  async function ask() {
    clearTimeout(asking);
    if (document.hidden || held) return;
    try {
      const headers = tag ? { "if-none-match": tag } : {};
      const answer = await fetch(top.dataset.state, { headers, cache: "no-store" });
      if (answer.status === 200) {
        tag = answer.headers.get("etag");
        hear(await answer.json());
      } else if (answer.status === 304) {
        if (latest) hear(latest);
      } else throw new Error(answer.statusText);
    } catch {
      tag = null;
      if (!held) show("lost", "lost connection, trying again");
    }
    clearTimeout(asking);
    asking = setTimeout(ask, ASK_MS);
  }

  function hear(message) {
    if (held) return;
    if (message.trouble) {
      show("lost", message.trouble);
      return;
    }
    latest = message;
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
    else ask();
  }

  // htmx fetches; the page's own script puts it in place, since it keeps zoom, filters and what was opened.
  document.addEventListener("htmx:beforeSwap", (event) => {
    const part = event.detail.target;
    if (!part.matches("[data-part]")) return;
    event.detail.shouldSwap = false;
    if (event.detail.xhr.status !== 200) return;
    part.dataset.version = (event.detail.xhr.getResponseHeader("etag") || "").replaceAll('"', "");
    part.dataset.renewed = String(Number(part.dataset.renewed || 0) + 1);
    rlplan.replace(part.firstElementChild, event.detail.serverResponse);
    // It may have changed again while it was fetched.
    clearTimeout(due);
    due = setTimeout(renew, TOGETHER_MS);
  });
  document.addEventListener("visibilitychange", ask);

  hold.hidden = false;
  hold.addEventListener("click", holdOrGoOn);
  show("waiting", "connecting");
  showTime(top.dataset.readAt);
  ask();
})();
