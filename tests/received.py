"""What the browser gets of the components `panels` and `generation`, read apart from the code that packs it."""

import json

import numpy as np

from viz_ui.colours import diverging_lut, sequential_lut
from viz_ui.components.packing import unpack


def received(blob):
    """The blob's matrices by name: values (0 where masked), and the mask or None."""
    header, body = unpack(blob)
    at, arrays = 0, {}
    for half in (False, True):
        for number, entry in enumerate(header["values"]):
            if entry["half"] == half:
                dtype = np.dtype("<f2" if half else "<f4")
                raw = np.frombuffer(body, dtype, entry["count"], at)
                arrays[number] = raw.astype(np.float64) * entry.get("unit", 1)
                at += raw.nbytes
    masks = []
    for entry in header["masks"]:
        size = -(-entry["cells"] // 8)
        masks.append(np.unpackbits(np.frombuffer(body, np.uint8, size, at))[: entry["cells"]].astype(bool))
        at += size
    result = {}
    for item in header["items"]:
        if item["kind"] == "matrix":
            entry = header["values"][item["values"]]
            shape = [len(header["labels"][item[axis]["labels"]]) for axis in ("rows", "columns")]
            whole = np.zeros(shape[0] * shape[1])
            whole[masks[entry["mask"]] if entry["mask"] is not None else slice(None)] = arrays[item["values"]]
            mask = None if item["mask"] is None else masks[item["mask"]].reshape(shape)
            result[item["name"]] = whole.reshape(shape) * item["factor"], mask
    assert body[at:] == sequential_lut().tobytes() + diverging_lut().tobytes()
    return result


def received_generation(blob):
    """What the browser gets of the component `generation`: header, K (S,D), V (S,D), A (S,S)."""
    header, body = unpack(blob)
    length, width = len(header["labels"]) - 1, header["width"]
    floats = np.frombuffer(body, "<f4", 2 * length * width + length * (length + 1) // 2)
    keys, values = (part.reshape(width, length).T for part in np.split(floats[: 2 * length * width], 2))
    weights = np.zeros((length, length))
    weights[np.tril_indices(length)] = floats[2 * length * width :]
    assert body[floats.nbytes :] == sequential_lut().tobytes() + diverging_lut().tobytes()
    return header, keys, values, weights


def opened_large(test, panel):
    """Open a matrix of a page under AppTest: the dialog's title, its file name, what else than this can be saved."""
    test.session_state["matrix_to_open"] = panel  # as a click notes it
    test.run()
    assert not test.exception, test.exception
    [dialog] = test.get("dialog")
    [chart], [picture] = dialog.get("plotly_chart"), dialog.get("bidi_component")
    more = [button.label for button in dialog.get("download_button")][2:]
    return json.loads(chart.proto.spec)["layout"]["title"]["text"], json.loads(picture.proto.json)["file"], more
