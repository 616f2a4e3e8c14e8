// The numbers of a step in three columns: what, with the cache, without it.

import { element } from "../shared/shared.js";

export class StepNumbers {
  constructor() {
    this.node = element("table", "numbers");
    this.node.setAttribute("aria-label", "Numbers of this step");
    this.head = element("tr");
    for (const word of ["this step", "cache", "no cache"]) this.head.append(element("th", "", word));
  }

  show(lines) {
    const rows = lines.map(([what, cached, uncached]) => {
      const row = element("tr");
      row.append(element("td", "", what), element("td", "number", cached));
      if (uncached) row.append(element("td", "number", uncached));
      else row.lastChild.colSpan = 2; // said of both together
      return row;
    });
    this.node.replaceChildren(this.head, ...rows);
  }
}
