// What the tests measure on a page: each function returns what is wrong, or where something is.
window.measures = (() => {
  const shown = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const named = (element) => `${element.tagName.toLowerCase()}.${element.getAttribute("class") ?? ""} "${element.textContent.trim().slice(0, 40)}"`;

  // Chromium writes mixed colours as "color(srgb r g b / a)" with parts from 0 to 1, all others as "rgb(…)".
  function parsed(text) {
    const parts = text.match(/-?[\d.]+(e-?\d+)?/g).map(Number);
    const rgb = text.startsWith("color(") ? parts.slice(0, 3).map((each) => 255 * each) : parts.slice(0, 3);
    return [...rgb, parts[3] ?? 1];
  }

  const over = (above, below) => below.map((each, place) => above[place] * above[3] + each * (1 - above[3]));

  function behind(element) {
    const layers = [];
    for (let each = element; each; each = each.parentElement) {
      const layer = parsed(getComputedStyle(each).backgroundColor);
      if (layer[3] > 0) layers.push(layer);
      if (layer[3] === 1) break;
    }
    return layers.reverse().reduce((below, above) => over(above, below), [255, 255, 255]); // paper has no colour of its own
  }

  function luminance(rgb) {
    const [r, g, b] = rgb.map((each) => each / 255).map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }

  function contrast(one, other) {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  }

  /** Text that is hard to read: less contrast to what is behind it than WCAG's 4.5, or 3 where it is large. */
  function faint() {
    const found = new Set();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const element = walker.currentNode.parentElement;
      if (!walker.currentNode.data.trim() || element.closest("script, style, option, .spoken") || !shown(element)) continue;
      const inChart = element.closest("svg");
      // Of a chart the axes and the legend stand on the page; what is written into bars and cells does not.
      if (inChart && !element.closest(".xtick, .ytick, .xtitle, .ytitle, .x2title, .y2title, .legendtext")) continue;
      const style = getComputedStyle(element);
      const ink = parsed(inChart ? style.fill : style.color);
      const paper = behind(inChart ? inChart.parentElement : element);
      const size = parseFloat(style.fontSize);
      const least = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
      const ratio = contrast(over(ink, paper), paper);
      if (ratio < least) found.add(`${ratio.toFixed(2)} ${named(element)}`);
    }
    return [...found];
  }

  /** How far the page itself can be scrolled sideways, in pixels, and what sticks out. */
  function sideways() {
    const wide = document.documentElement.clientWidth;
    const extra = document.documentElement.scrollWidth - wide;
    if (extra <= 0) return [];
    const out = [...document.body.querySelectorAll("*")].filter((each) => each.getBoundingClientRect().right > wide + 1 && !each.closest(".scroll, pre"));
    return [`${extra} px`, ...out.slice(0, 5).map(named)];
  }

  /** Text that is cut off by its box, which does not scroll. */
  function cutOff() {
    const boxes = document.querySelectorAll("h1, h2, h3, h4, p, dd, dt, button, li, td, th, .state, .action");
    return [...boxes].filter((each) => shown(each) && getComputedStyle(each).overflowX === "hidden" && each.scrollWidth > each.clientWidth + 1).map(named);
  }

  /** What somebody who cannot see the page misses. */
  function unheard() {
    const wrong = [];
    let last = 0;
    for (const heading of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
      const level = Number(heading.tagName[1]);
      if (level > last + 1) wrong.push(`heading of level ${level} after ${last}: ${named(heading)}`);
      last = level;
    }
    if (document.querySelectorAll("h1").length !== 1) wrong.push("not exactly one h1");
    if (!document.documentElement.lang) wrong.push("no language");
    if (!document.title) wrong.push("no title");
    if (document.querySelectorAll("main").length !== 1) wrong.push("not exactly one main");
    for (const plot of document.querySelectorAll("[data-chart] .plot")) {
      if (plot.getAttribute("role") !== "img" || !(plot.getAttribute("aria-label") ?? "").trim()) wrong.push(`chart without words: ${named(plot)}`);
    }
    for (const each of document.querySelectorAll("button, a[href]")) {
      if (!each.textContent.trim() && !each.getAttribute("aria-label") && !each.closest(".plot")) wrong.push(`no name: ${each.outerHTML.slice(0, 80)}`);
    }
    for (const each of document.querySelectorAll("input:not([type=hidden]), select")) {
      if (!each.labels.length && !each.getAttribute("aria-label")) wrong.push(`no label: ${each.outerHTML.slice(0, 80)}`);
    }
    for (const each of document.querySelectorAll("table")) if (!each.querySelector("th[scope], thead th")) wrong.push("table without headings");
    const ids = [...document.querySelectorAll("[id]")].map((each) => each.id);
    for (const id of new Set(ids.filter((each, place) => ids.indexOf(each) !== place))) wrong.push(`twice the id ${id}`);
    return wrong;
  }

  const turn = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));

  async function seeAll() {
    const late = () => [...document.querySelectorAll("[data-chart]")].find((each) => shown(each) && !("drawn" in each.dataset));
    for (let figure = late(); figure; figure = late()) {
      figure.scrollIntoView({ block: "center", behavior: "instant" });
      await turn();
    }
    window.scrollTo({ top: 0, behavior: "instant" });
    // After a change of the screen's size charts follow in a moment; those that never do are found by what is measured.
    const outgrown = () => [...document.querySelectorAll(".plot")].some((each) => shown(each) && Math.abs((each._fullLayout?.width ?? each.clientWidth) - each.clientWidth) > 1);
    for (let turns = 0; turns < 100 && (turns < 2 || outgrown()); turns += 1) await turn();
  }

  /** Where a point of a curve lies on the screen: of a chart, the one of that step. */
  async function pointAt(chart, step) {
    const plot = document.querySelector(`[data-chart="${CSS.escape(chart)}"] .plot`);
    plot.scrollIntoView({ block: "center", behavior: "instant" });
    while (!plot.querySelector(".point")) await turn();
    const place = (trace) => (trace.customdata ?? []).indexOf(step);
    const trace = plot.data.find((each) => place(each) >= 0);
    const { xaxis, yaxis, _size: size } = plot._fullLayout;
    const box = plot.getBoundingClientRect();
    return [box.left + size.l + xaxis.d2p(trace.x[place(trace)]), box.top + size.t + yaxis.d2p(trace.y[place(trace)])];
  }

  return { faint, sideways, cutOff, unheard, seeAll, pointAt };
})();
