// Tables: sorted by a click on a heading, filtered by what is typed, long ones opened by a button.
"use strict";
(() => {
  const rowsOf = (id) => [...document.getElementById(id).rows];
  // Only what one sees: of what a row opens to, its reason.
  const saidBy = (row) => [...row.cells].map((cell) => (cell.querySelector("summary") ?? cell).textContent).join(" ").toLowerCase();

  function sort(button) {
    const heading = button.closest("th");
    const body = heading.closest("table").tBodies[0];
    const column = heading.cellIndex;
    const falling = heading.getAttribute("aria-sort") === "ascending";
    for (const each of heading.parentElement.children) each.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", falling ? "descending" : "ascending");
    const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
    const compare = (a, b) => {
      const [x, y] = [value(a), value(b)];
      const difference = Number(x) - Number(y);
      return Number.isNaN(difference) ? x.localeCompare(y, undefined, { numeric: true }) : difference;
    };
    const sorted = [...body.rows].sort((a, b) => (falling ? -compare(a, b) : compare(a, b)));
    body.append(...sorted);
  }

  /** Show the rows that hold every word; without words as many as were shown at first. */
  function filter(input) {
    const id = input.dataset.filter;
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const body = document.getElementById(id);
    const first = body.dataset.first && !body.dataset.opened ? Number(body.dataset.first) : Infinity;
    let found = 0;
    rowsOf(id).forEach((row, place) => {
      const text = words.length ? saidBy(row) : "";
      const fits = words.every((word) => text.includes(word));
      row.hidden = words.length ? !fits : place >= first;
      found += fits ? 1 : 0;
    });
    const count = document.querySelector(`[data-count="${id}"]`);
    if (!count) return;
    count.dataset.whole ??= count.textContent;
    count.textContent = words.length ? `${found} of ${count.dataset.whole}` : count.dataset.whole;
  }

  function open(button) {
    const id = button.dataset.all;
    document.getElementById(id).dataset.opened = "";
    rowsOf(id).forEach((row) => { row.hidden = false; });
    button.closest(".more").hidden = true;
  }

  document.addEventListener("click", (event) => {
    const sorting = event.target.closest("[data-sort]");
    const opening = event.target.closest("[data-all]");
    if (sorting) sort(sorting);
    if (opening) open(opening);
  });
  document.addEventListener("input", (event) => {
    if (event.target.matches("[data-filter]")) filter(event.target);
  });

  // A section that is replaced keeps what was typed, how it was sorted and what was opened.
  document.addEventListener("rlplan:replace", ({ detail: { old, made } }) => {
    const after = [];
    for (const input of old.querySelectorAll("[data-filter]")) {
      const again = made.querySelector(`[data-filter="${input.dataset.filter}"]`);
      if (again && input.value) {
        again.value = input.value;
        after.push(() => filter(again));
      }
    }
    for (const body of old.querySelectorAll("[data-opened]")) {
      const button = made.querySelector(`[data-all="${body.id}"]`);
      if (button) after.push(() => open(button));
    }
    for (const heading of old.querySelectorAll("th[aria-sort]")) {
      const button = made.querySelectorAll("thead th")[heading.cellIndex]?.querySelector("[data-sort]");
      if (button) after.push(() => { sort(button); if (heading.getAttribute("aria-sort") === "descending") sort(button); });
    }
    const opened = new Set([...old.querySelectorAll("tr:has(details[open])")].map((row) => row.cells[0].textContent));
    for (const row of made.querySelectorAll("tr:has(details)")) {
      if (opened.has(row.cells[0].textContent)) row.querySelector("details").open = true;
    }
    queueMicrotask(() => after.forEach((each) => each()));
  });
})();
