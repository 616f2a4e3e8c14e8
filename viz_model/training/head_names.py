"""The names of the heads of bundled models: python -m viz_model.training.head_names [NAME ...] writes them anew."""

import argparse
import sys

import viz_model as vm
from viz_model.checkpoints import BUNDLED, FOLDER
from viz_model.checkpoints.head_names import keep_head_names
from viz_model.errors import VizError
from viz_model.heads.names import HeadNames
from viz_model.heads.report import WINDOWS, head_report
from viz_model.model import Model
from viz_model.training.held_out import shipped_text


def named_heads(model: Model, name: str, windows: int = WINDOWS) -> dict[str, HeadNames]:
    """The names of the heads of every part of a model, over so many windows of the text that ships with it."""
    text, words = shipped_text(model, name, windows)
    parts = model.config.parts
    return {part: head_report(model, text, part=part, windows=windows).kept_names(words) for part in parts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=BUNDLED)
    for name in parser.parse_args().names:
        model = vm.load(name)
        names = named_heads(model, name)
        keep_head_names(FOLDER / name, model.config, names)
        for part, of_part in names.items():
            print(f"{name}, {part}: {of_part.windows} windows ({of_part.tokens:,} tokens) {of_part.text}")
            for layer, of_layer in enumerate(of_part.names):
                print("\n".join(f"  {layer}.{head}  {one}" for head, one in enumerate(of_layer)))


if __name__ == "__main__":
    try:
        main()
    except VizError as error:
        sys.exit(str(error))
