// Draws the charts: every [data-chart] holds a figure as JSON, whose colours are names such as "$accent/0.2".
// TEMPLATE, what they all look like, stands in template.js.
"use strict";
window.rlplan = (() => {
  const NARROW = 560; // pixels of a chart below which labels and colour bars give way
  const AHEAD = "300px"; // how far below the screen a chart is drawn already
  const BUTTONS = [["toImage", "zoom2d", "pan2d", "resetScale2d"]]; // no other: one of plotly's own sends the chart away
  const coarse = window.matchMedia("(pointer: coarse)").matches;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const charts = new WeakMap(); // of a figure element: its JSON as text, what it holds, and whether it is drawn
  const waiting = new Set();
  let palette = new Map();
  let axis = null; // "log" or "linear" when the reader has chosen one for the curves

  const probe = document.createElement("span");
  probe.hidden = true;

  function colour(name) {
    const [token, opacity] = name.slice(1).split("/");
    if (!palette.has(token)) {
      probe.style.color = `var(--${token})`;
      palette.set(token, getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3));
    }
    const channels = palette.get(token).join(", ");
    return opacity === undefined ? `rgb(${channels})` : `rgba(${channels}, ${opacity})`;
  }

  // Only values of keys that are colours are looked up: a trial may be called "$accent".
  function coloured(value, key) {
    if (Array.isArray(value)) {
      if (key === "colorscale") return value.map(([at, name]) => [at, colour(name)]);
      if (/color$/.test(key)) return value.map((each) => (typeof each === "string" && each[0] === "$" ? colour(each) : each));
      return /^(data|shapes|annotations|heatmap)$/.test(key) ? value.map((each) => coloured(each, "")) : value;
    }
    if (value !== null && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, coloured(each, name)]));
    }
    return typeof value === "string" && value[0] === "$" && /color$/.test(key) ? colour(value) : value;
  }

  function template() {
    const made = coloured(TEMPLATE, "");
    made.layout.font.family = getComputedStyle(document.body).fontFamily;
    return made;
  }

  function narrowed(trace) {
    if (trace.meta === "labels") return { ...trace, mode: trace.mode.replace("+text", "") };
    if (trace.meta === "cells") return { ...trace, textfont: { ...trace.textfont, size: 9 } };
    return trace.type === "heatmap" ? { ...trace, showscale: false } : trace;
  }

  // Of named ticks every other one stays on a narrow screen, so that they need not be turned.
  function sparser(layout) {
    const thinned = Object.entries(layout).filter(([name, each]) => name.startsWith("xaxis") && each.ticktext?.length > 5 && each.type === "log");
    return { ...layout, ...Object.fromEntries(thinned.map(([name, each]) => {
      const kept = (_, place) => (each.ticktext.length - 1 - place) % 2 === 0;
      return [name, { ...each, tickvals: each.tickvals.filter(kept), ticktext: each.ticktext.filter(kept), tickangle: 0 }];
    })) };
  }

  function render(figure) {
    const chart = charts.get(figure);
    const plot = figure.querySelector(".plot");
    chart.spec ??= JSON.parse(chart.text); // not before it is seen: there may be hundreds
    const themed = coloured(chart.spec, "");
    const slim = plot.clientWidth < NARROW && !themed.axes;
    const layout = { ...(slim ? sparser(themed.layout) : themed.layout), template: template(), height: chart.spec.height, autosize: true };
    if (coarse) layout.dragmode = false; // a finger scrolls the page
    if (axis && themed.axes) layout.xaxis = themed.axes[axis];
    const config = { displaylogo: false, responsive: false, displayModeBar: themed.axes ? false : "hover", modeBarButtons: BUTTONS, showSendToCloud: false, plotlyServerURL: "" };
    window.Plotly.react(plot, slim ? themed.data.map(narrowed) : themed.data, layout, config);
    if (!chart.drawn) sizes.observe(plot);
    chart.drawn = true;
    chart.width = plot.clientWidth;
    figure.dataset.drawn = "";
  }

  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) {
        seen.unobserve(entry.target);
        later(entry.target);
      }
    }
  }, { rootMargin: `${AHEAD} 0px` });

  // One chart a turn, so that the page answers while many are drawn.
  function later(figure) {
    if (waiting.size === 0) setTimeout(next);
    waiting.add(figure);
  }

  function next() {
    const [figure] = waiting;
    if (!figure) return;
    waiting.delete(figure);
    if (figure.isConnected) render(figure);
    if (waiting.size > 0) setTimeout(next);
  }

  let resized = 0;
  const sizes = new ResizeObserver((entries) => {
    const changed = entries.map((entry) => entry.target.closest("[data-chart]")).filter((figure) => {
      const chart = figure && charts.get(figure);
      const width = figure && figure.querySelector(".plot").clientWidth;
      return chart && width > 0 && Math.abs(width - chart.width) > 1;
    });
    if (changed.length === 0) return;
    cancelAnimationFrame(resized);
    resized = requestAnimationFrame(() => all().filter(outgrown).forEach(render));
  });

  const all = () => [...document.querySelectorAll("[data-chart]")].filter((figure) => charts.get(figure)?.drawn);

  function outgrown(figure) {
    const width = figure.querySelector(".plot").clientWidth;
    return width > 0 && Math.abs(width - charts.get(figure).width) > 1;
  }

  /** Draw the charts below an element; one whose JSON is what it was stays as it is. */
  function draw(root = document) {
    if (!probe.isConnected) document.body.append(probe);
    const found = [...root.querySelectorAll("[data-chart]")];
    if (root instanceof Element && root.matches("[data-chart]")) found.push(root);
    for (const figure of found) {
      const text = figure.querySelector("script[type='application/json']").textContent;
      const old = charts.get(figure);
      if (old && old.text === text) continue;
      charts.set(figure, { text, spec: null, drawn: Boolean(old?.drawn), width: old?.width ?? 0 });
      figure.querySelector(".plot").style.height = `${figure.dataset.height}px`;
      if (old?.drawn) later(figure);
      else seen.observe(figure);
    }
  }

  function recolour() {
    palette = new Map();
    all().forEach(render);
  }

  /** Draw the curves on a log or a linear axis of GPU-hours. */
  function curvesOn(kind) {
    axis = kind;
    all().filter((figure) => charts.get(figure).spec.axes).forEach(render);
  }

  /** Put a section's new HTML in place of the old: charts keep their zoom, and only what has changed is drawn. */
  function replace(element, html) {
    const holder = document.createElement("template");
    holder.innerHTML = html;
    const made = holder.content.firstElementChild;
    const kept = new Map([...element.querySelectorAll("[data-chart]")].map((figure) => [figure.dataset.chart, figure]));
    for (const figure of made.querySelectorAll("[data-chart]")) {
      const old = kept.get(figure.dataset.chart);
      if (!old || !charts.has(old)) continue;
      old.dataset.height = figure.dataset.height;
      old.querySelector("script").textContent = figure.querySelector("script").textContent;
      old.querySelector(".plot").setAttribute("aria-label", figure.querySelector(".plot").getAttribute("aria-label"));
      old.querySelector("figcaption")?.replaceWith(figure.querySelector("figcaption") ?? "");
      figure.replaceWith(old);
    }
    document.dispatchEvent(new CustomEvent("rlplan:replace", { detail: { old: element, made } }));
    element.replaceWith(made);
    draw(made);
    return made;
  }

  function theme(name) {
    document.documentElement.dataset.theme = name;
    recolour();
  }

  dark.addEventListener("change", recolour);
  let before = "";
  window.addEventListener("beforeprint", () => {
    before = document.documentElement.dataset.theme ?? "";
    document.documentElement.dataset.theme = "light";
    palette = new Map();
    document.querySelectorAll("[data-chart]").forEach((figure) => figure.offsetParent && charts.has(figure) && render(figure));
  });
  window.addEventListener("afterprint", () => {
    if (before) document.documentElement.dataset.theme = before;
    else delete document.documentElement.dataset.theme;
    recolour();
  });

  return { draw, replace, recolour, curvesOn, theme, isDark: () => {
    const set = document.documentElement.dataset.theme;
    return set ? set === "dark" : dark.matches;
  } };
})();
