// Streamlit keeps plotly.js to itself, but the chart's own camera button saves in whatever format its
// configuration names: set that, press the button. The page's colours go in, or a picture taken on a dark
// page would be white text on nothing.

import { inOrder } from "../shared/shared.js";

export default inOrder(({ data, parentElement }) => {
  const status = parentElement.querySelector("[role=status]");
  for (const button of parentElement.querySelectorAll("button")) {
    button.onclick = () => {
      const pressed = pressCamera(data.chart, data.file, button);
      status.textContent = pressed ? "" : "The plot is still being drawn: try again in a moment.";
    };
  }
});

function pressCamera(chart, filename, button) {
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
