"""What the browser gets of the components `panels` and `generation`, read apart from the code that packs it."""

import json

import numpy as np

from viz_ui.components.shared.packing import unpack
from viz_ui.look.colours import diverging_lut, sequential_lut


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
    """What the browser gets of the component `generation`: header, K (S,D), V (S,D), A (T,S)."""
    header, body = unpack(blob)
    length, width = len(header["labels"]) - 1, header["width"]
    keys_there = len(header["source"]) if header["of_source"] else length
    weights = np.zeros((length, keys_there))
    sent = np.ones_like(weights, dtype=bool) if header["of_source"] else np.tri(length, dtype=bool)
    floats = np.frombuffer(body, "<f4", 2 * keys_there * width + sent.sum())
    keys, values = (part.reshape(width, keys_there).T for part in np.split(floats[: 2 * keys_there * width], 2))
    weights[sent] = floats[2 * keys_there * width :]
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


def received_tiles(blob):
    """What the browser gets of the component `tiles`: header, and a dict of arrays for each tile."""
    header, body = unpack(blob)
    shapes = [(bottom - top, right - left) for top, bottom, left, right, *_ in header["tiles"]]
    rows, cells = sum(r for r, _ in shapes), sum(r * c for r, c in shapes)
    at, arrays = 0, {}
    for name, count, dtype, unit in (
        *((name, rows, "<f4", 1) for name in ("maximum", "total", "rescaling")),
        *(
            (name, count, "<f2" if header["half"] else "<f4", unit)
            for name, count, unit in zip(
                ("scores", "exponentials", "output"),
                (cells, cells, rows * header["width"]),
                header["units"],
                strict=True,
            )
        ),
    ):
        arrays[name] = np.frombuffer(body, dtype, count, at).astype(np.float64) * unit
        at += count * np.dtype(dtype).itemsize
    size = -(-cells // 8)
    arrays["allowed"] = np.unpackbits(np.frombuffer(body, np.uint8, size, at))[:cells].astype(bool)
    assert body[at + size :] == sequential_lut().tobytes() + diverging_lut().tobytes()
    tiles, row, cell = [], 0, 0
    for r, c in shapes:
        tile = {name: arrays[name][row : row + r] for name in ("maximum", "total", "rescaling")}
        tile |= {
            name: arrays[name][cell : cell + r * c].reshape(r, c) for name in ("scores", "exponentials", "allowed")
        }
        tile["output"] = arrays["output"][row * header["width"] : (row + r) * header["width"]].reshape(r, -1)
        tiles.append(tile)
        row, cell = row + r, cell + r * c
    return header, tiles
