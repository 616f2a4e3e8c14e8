// Streamlit keeps plotly.js to itself, but the chart's own camera button saves in whatever format its
// configuration names: set that, press the button. The page's colours go in, or a picture taken on a dark
// page would be white text on nothing.

import { inOrder } from "../shared/mounting.js";

/** @param {import("../shared/mounting.js").Call<{ chart: string, file: string }>} call */
function mount({ data, parentElement }) {
  const status = /** @type {HTMLElement} */ (parentElement.querySelector("[role=status]"));
  for (const button of parentElement.querySelectorAll("button")) {
    button.onclick = () => {
      const pressed = pressCamera(data.chart, data.file, button);
      status.textContent = pressed ? "" : "The plot is still being drawn: try again in a moment.";
    };
  }
}

/**
 * Whether the chart was there to be saved.
 * @param {string} chart its key
 * @param {string} filename
 * @param {HTMLButtonElement} button whose value is the format
 * @returns {boolean}
 */
function pressCamera(chart, filename, button) {
  /** @type {any} a chart of plotly.js, which keeps its configuration on its element */
  const plot = document.querySelector(`.st-key-${chart} .js-plotly-plot`);
  const camera = plot?.querySelector('.modebar-btn[data-title^="Download plot"]');
  if (!camera) return false;
  const scale = button.value === "png" ? 3 : 1;
  plot._context.toImageButtonOptions = { format: button.value, filename, scale };
  const { layout } = plot;
  const seeThrough = layout.paper_bgcolor;
  layout.paper_bgcolor = getComputedStyle(button).getPropertyValue("--st-background-color").trim();
  camera.click(); // copies the layout before it returns
  layout.paper_bgcolor = seeThrough;
  return true;
}

export default inOrder(mount);
