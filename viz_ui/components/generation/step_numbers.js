// The numbers of a step in three columns: what, with the cache, without it.

import { element } from "../shared/elements.js";

export class StepNumbers {
  constructor() {
    this.node = element("table", "numbers");
    this.node.setAttribute("aria-label", "Numbers of this step");
    this.head = element("tr");
    for (const word of ["this step", "cache", "no cache"]) this.head.append(element("th", "", word));
  }

  /** @param {[what: string, cached: string, uncached: string][]} lines */
  show(lines) {
    const rows = lines.map(([what, cached, uncached]) => {
      const row = element("tr");
      const number = element("td", "number", cached);
      row.append(element("td", "", what), number);
      if (uncached) row.append(element("td", "number", uncached));
      else number.colSpan = 2; // said of both together
      return row;
    });
    this.node.replaceChildren(this.head, ...rows);
  }
}
