"""The figures of a checkpoint: python -m viz_model.training.figures checkpoints/tiny-gpt [--text FILE] [--write]"""

import argparse
import json
import sys
from pathlib import Path

import viz_model as vm
from viz_model.checkpoints import HEADS_FILE
from viz_model.errors import VizError
from viz_model.training.figures import dates, masked, repeats, text
from viz_model.training.figures.report import Report, books_of
from viz_model.training.recipes import RECIPES


def report(model: vm.Model, folder: Path, whole_text: Path | None) -> Report:
    """The figures that fit what the model was made for."""
    if model.config.layout == "encoder-decoder":
        return dates.report(model)
    if model.config.layout == "encoder-only":
        return masked.report(model, books_of(folder, whole_text), _twin(folder))
    if model.config.d_ff == 0:  # attention alone: it was made to copy
        return repeats.report(model)
    return text.report(model, books_of(folder, whole_text))


def _twin(folder: Path) -> vm.Model | None:
    """The bundled model that a bundled one began with, of the same tokens and text."""
    recipe = RECIPES.get(folder.name)
    return vm.load(recipe.begins_with) if recipe and recipe.begins_with else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--text", type=Path, help="the whole text; its held-out part is measured, as training cuts it off"
    )
    parser.add_argument("--write", action="store_true", help=f"write the heads' figures to {HEADS_FILE}")
    arguments = parser.parse_args()
    result = report(vm.load(arguments.folder), arguments.folder, arguments.text)
    print("\n".join(result.lines))
    if arguments.write:
        (arguments.folder / HEADS_FILE).write_text(json.dumps(result.heads, indent=1) + "\n")


if __name__ == "__main__":
    try:
        main()
    except VizError as error:
        sys.exit(str(error))
