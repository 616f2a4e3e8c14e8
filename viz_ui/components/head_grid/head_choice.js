// Which head of a grid is chosen: a message of its own, so that the pictures are sent only when they change.

import { inOrder } from "../shared/mounting.js";
import { tellChoice } from "./head_grid.js";

/** @typedef {import("./head_grid.js").Choice} Choice */

export default inOrder((/** @type {import("../shared/mounting.js").Call<Choice>} */ { data }) => tellChoice(data));
