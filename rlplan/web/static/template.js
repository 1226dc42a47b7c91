// What all charts look like beside their data: a template of plotly's, whose colours are names of the theme.
"use strict";
const AXIS = {
  gridcolor: "$line", linecolor: "$line", zerolinecolor: "$line", tickcolor: "$line", zeroline: false,
  ticks: "outside", ticklen: 4, ticklabelstandoff: 3, exponentformat: "none", separatethousands: true, automargin: true,
  tickfont: { color: "$muted", size: 11 }, title: { font: { color: "$muted", size: 12 }, standoff: 8 },
};
const SCALE = { thickness: 10, outlinewidth: 0, tickfont: { color: "$muted", size: 11 }, title: { side: "right", font: { color: "$muted", size: 11 } } };
const TEMPLATE = {
  layout: {
    font: { color: "$ink", size: 12 }, paper_bgcolor: "$surface", plot_bgcolor: "$surface",
    margin: { l: 56, r: 16, t: 12, b: 44 }, hovermode: "closest", showlegend: false,
    xaxis: AXIS, yaxis: AXIS,
    legend: { font: { size: 11.5 }, bgcolor: "rgba(0,0,0,0)", orientation: "h", traceorder: "normal", yref: "container", y: 0, yanchor: "bottom", x: 0 },
    hoverlabel: { bgcolor: "$raised", bordercolor: "$quiet", align: "left", font: { color: "$ink", size: 12 } },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: "$quiet", activecolor: "$accent" },
  },
  data: {
    heatmap: [{ xgap: 2, ygap: 2, hoverongaps: false, colorbar: SCALE, colorscale: [0, 1, 2, 3, 4].map((step) => [step / 4, `$scale-${step}`]) }],
  },
};
