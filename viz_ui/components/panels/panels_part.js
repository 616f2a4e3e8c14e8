// The part of a long matrix that is looked at: a message of its own, so that to zoom sends nothing else again.

import { inOrder } from "../shared/mounting.js";
import { tellPart } from "./panels.js";

export default inOrder((/** @type {import("../shared/mounting.js").Call} */ { data }) => tellPart(data));
