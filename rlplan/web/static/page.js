// The page's buttons: theme, copy, choices between pictures, more panels.
"use strict";
(() => {
  const KEY = "rlplan-theme";

  const stored = {
    get() { try { return localStorage.getItem(KEY); } catch { return null; } },
    set(value) { try { localStorage.setItem(KEY, value); } catch { /* without storage the choice lasts for this page */ } },
  };

  async function copy(button) {
    const source = document.getElementById(button.dataset.copy);
    const label = button.textContent;
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(source);
      button.textContent = document.execCommand("copy") ? "Copied" : "Selected";
    }
    setTimeout(() => { button.textContent = label; }, 1500);
  }

  function choose(section, wanted) {
    for (const each of section.querySelectorAll("[data-variant]")) each.hidden = each.dataset.variant !== wanted;
    rlplan.draw(section);
  }

  function axis(button) {
    for (const each of button.parentElement.children) each.setAttribute("aria-pressed", String(each === button));
    rlplan.curvesOn(button.dataset.axis);
  }

  function more(button) {
    const section = button.closest(".section");
    const hidden = [...section.querySelectorAll(".panel[hidden]")];
    const count = button.dataset.more === "all" ? hidden.length : Number(button.dataset.more);
    hidden.slice(0, count).forEach((panel) => { panel.hidden = false; });
    if (count >= hidden.length) button.closest(".more").hidden = true;
    rlplan.draw(section);
  }

  function toggle() {
    const name = rlplan.isDark() ? "light" : "dark";
    stored.set(name);
    rlplan.theme(name);
  }

  const acts = {
    copy,
    themeToggle: toggle,
    axis,
    more,
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    for (const [name, act] of Object.entries(acts)) if (name in button.dataset) act(button);
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-variants]")) choose(event.target.closest(".section"), event.target.value);
  });

  // A section that is replaced keeps the choices that were made in it.
  document.addEventListener("rlplan:replace", ({ detail: { old, made } }) => {
    const select = old.querySelector("[data-variants]");
    const again = made.querySelector("[data-variants]");
    if (select && again && select.value !== "0" && again.options[select.value]) {
      again.value = select.value;
      choose(made, select.value);
    }
    const on = old.querySelector("[data-axis][aria-pressed='true']");
    for (const each of made.querySelectorAll("[data-axis]")) each.setAttribute("aria-pressed", String(each.dataset.axis === on?.dataset.axis));
    const shown = old.querySelectorAll(".panel:not([hidden])").length;
    const panels = [...made.querySelectorAll(".panel")];
    if (shown > 0 && panels.length > 0) panels.slice(0, shown).forEach((panel) => { panel.hidden = false; });
    if (made.querySelector(".more [data-more]") && !made.querySelector(".panel[hidden]")) made.querySelector(".more").hidden = true;
  });

  const chosen = stored.get();
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  rlplan.draw(document);
})();
