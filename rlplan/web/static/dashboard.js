// Keeps a live page up to date: htmx asks for it again and again, and the parts that have changed are replaced.
(() => {
  "use strict";
  const live = document.querySelector(".live");
  if (!live) return;
  const label = live.querySelector(".link-state");
  const hold = document.getElementById("hold");
  let tag = ""; // of the newest answer: the server says whether there is another
  let held = false;

  function show(state, text) {
    if ((held && state !== "paused") || label.textContent === text) return;
    live.dataset.link = state;
    label.textContent = text;
  }

  function renew(html) {
    const parts = [...new DOMParser().parseFromString(html, "text/html").querySelectorAll("[data-part]")];
    const here = [...document.querySelectorAll("[data-part]")];
    // After a problem the page itself is another one.
    if (parts.map((part) => part.dataset.part).join() !== here.map((part) => part.dataset.part).join()) location.reload();
    else parts.forEach((part, place) => replace(here[place], part));
  }

  // The page's own script puts a part in place, since it keeps zoom, filters and what was opened.
  function replace(old, part) {
    const isTyping = old.contains(document.activeElement) && document.activeElement.matches("input, select");
    if (old.dataset.version === part.dataset.version || isTyping) return;
    old.dataset.version = part.dataset.version;
    rlplan.replace(old.firstElementChild, part.innerHTML.trim());
  }

  document.addEventListener("htmx:configRequest", (event) => {
    if (held || document.hidden) event.preventDefault(); // a tab that nobody sees asks nothing
    if (tag) event.detail.headers["If-None-Match"] = tag;
  });
  document.addEventListener("htmx:beforeSwap", ({ detail }) => {
    detail.shouldSwap = false;
    if (detail.xhr.status !== 200) return;
    tag = detail.xhr.getResponseHeader("etag");
    renew(detail.serverResponse);
  });
  document.addEventListener("htmx:afterRequest", ({ detail: { xhr } }) => {
    if (xhr.status === 200 || xhr.status === 304) show("live", "live");
    else show("lost", xhr.responseText.trim() || "lost connection, trying again");
  });
  hold.addEventListener("click", () => {
    held = !held;
    hold.textContent = held ? "Go on updating" : "Pause updates";
    show(held ? "paused" : "waiting", held ? "paused" : "connecting");
  });
  hold.hidden = false;
  show("waiting", "connecting");
})();
