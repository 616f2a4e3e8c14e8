"""Models on the command line: list them, fetch and remove more.

python -m viz_model.checkpoints list
python -m viz_model.checkpoints fetch SmolLM2-135M-Instruct      or ORG/NAME of the Hugging Face Hub
python -m viz_model.checkpoints remove SmolLM2-135M-Instruct
python -m viz_model.checkpoints convert FILE.gguf FOLDER         GGUF to a folder of safetensors
python -m viz_model.checkpoints check FOLDER                     load it, run one token, count its parameters
"""

import argparse
import json
import sys
from pathlib import Path

from viz_model.checkpoints import catalogue, fetched_folder, load
from viz_model.errors import VizError
from viz_model.fetching import fetch, folder_name, remove


def main() -> None:
    as_written = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python -m viz_model.checkpoints", description=__doc__, formatter_class=as_written
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list")
    for command, arguments in {
        "fetch": ("name",),
        "remove": ("name",),
        "convert": ("file", "folder"),
        "check": ("folder",),
    }.items():
        for argument in (added := commands.add_parser(command)) and arguments:
            added.add_argument(argument)
    chosen = vars(parser.parse_args())
    COMMANDS[chosen.pop("command")](**chosen)


def list_models() -> None:
    for entry in catalogue():
        print(f"{entry.name:32} {entry.state:9} {entry.parameters:>14,} parameters  {entry.licence}  {entry.source}")


def fetch_model(name: str) -> None:
    try:
        folder = fetch(name, fetched_folder(), _show)
    except KeyboardInterrupt:
        sys.exit("\nCancelled. Nothing of it was kept.")
    except VizError:
        print()  # below the progress
        raise
    print(f"\n{name} is in {folder}.")


def remove_model(name: str) -> None:
    remove(fetched_folder() / folder_name(name))
    print(f"{name} is removed.")


def convert(file: str, folder: str) -> None:
    from viz_model.hub import convert_gguf  # brings the transformers library along

    convert_gguf(Path(file), Path(folder))


def check(folder: str) -> None:
    """Load a model and run one token; print as JSON what was found."""
    model = load(Path(folder).resolve())
    model.trace([0])
    json.dump(
        {"parameters": model.transformer.n_parameters(), "has_tokenizer": model.tokenizer is not None}, sys.stdout
    )


def _show(done: float = 0, total: float | None = None, words: str = "") -> None:
    amount = f" {done / 1e6:,.1f} of {total / 1e6:,.1f} MB" if total else ""
    print(f"\r{words}{amount}\033[K", end="", flush=True)


COMMANDS = {"list": list_models, "fetch": fetch_model, "remove": remove_model, "convert": convert, "check": check}

if __name__ == "__main__":
    try:
        main()
    except VizError as error:
        sys.exit(str(error))
