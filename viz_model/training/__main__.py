"""Train a bundled checkpoint on a text: python -m viz_model.training tiny-gpt --text FILE.

Stop it with Ctrl-C at any time; the same command goes on from the last saved step.
"""

import argparse
import sys
import time
from pathlib import Path

import torch

from viz_model.checkpoints import FOLDER, load, save
from viz_model.errors import TrainingError, VizError
from viz_model.model.tokenizer import FILE_NAME as TOKENIZER_FILE
from viz_model.model.tokenizer import Tokenizer
from viz_model.training.data import encode_books, split_books
from viz_model.training.figures.report import HELD_OUT_FILE
from viz_model.training.loop import SAVE_EVERY, StepReport, Training
from viz_model.training.recipes import RECIPES, Recipe
from viz_model.training.tokenizer import train_tokenizer


def main() -> None:
    arguments = _arguments()
    torch.set_num_threads(arguments.threads)
    folder = arguments.out or FOLDER / arguments.recipe
    recipe = RECIPES[arguments.recipe]
    if arguments.text_steps is not None:
        recipe = recipe.with_text_steps(arguments.text_steps)
    beginnings, ends = _books(arguments.text, recipe)
    before = arguments.start or recipe.begins_with
    if before and not (folder / TOKENIZER_FILE).exists():
        folder.mkdir(parents=True, exist_ok=True)
        load(before).tokenizer.save(folder)  # its weights know these tokens only
    tokenizer = Tokenizer.of_bytes()
    if recipe.reads_text:
        tokenizer = _tokenizer(folder, beginnings, recipe.config.vocab_size)
    stream = encode_books(beginnings, tokenizer)
    training = Training(recipe, stream, folder / "training")
    resumed = training.resume()
    if arguments.start and not resumed:
        training.start_from(load(arguments.start).transformer)
    elif recipe.begins_with and not resumed:
        training.take_weights(load(recipe.begins_with).transformer)
    parameters = training.model.n_parameters()
    read = f"{len(stream):,} training tokens; " if recipe.reads_text else ""
    print(f"{parameters:,} parameters; {read}{recipe.steps} steps.")
    print(f"{'Going on' if resumed else 'Starting'} at step {training.step}.", flush=True)
    try:
        training.run(_print)
    except KeyboardInterrupt:
        print(f"Stopped. The same command goes on from step {training.step // SAVE_EVERY * SAVE_EVERY}.")
        return
    save(folder, training.model, tokenizer)
    if recipe.reads_text:
        (folder / HELD_OUT_FILE).write_text("\n\n".join(end.strip("\n") for end in ends if end.strip()) + "\n", "utf-8")
    print(f"Saved to {folder}. Its figures: python -m viz_model.training.figures {folder} --write")


def _arguments() -> argparse.Namespace:
    as_written = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=as_written)
    parser.add_argument("recipe", choices=sorted(RECIPES))
    text = "a text file of books, with a blank line between books and one paragraph per line"
    parser.add_argument("--text", type=Path, help=f"{text}; needed by recipes that learn from a text")
    parser.add_argument("--out", type=Path, help="the folder of the checkpoint; the default is checkpoints/RECIPE")
    parser.add_argument(
        "--text-steps", type=int, help="number of steps in the last text stage, instead of the recipe's"
    )
    parser.add_argument(
        "--start", type=Path, help="a finished checkpoint to start from; only the last text stage is trained"
    )
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    return parser.parse_args()


def _books(path: Path | None, recipe: Recipe) -> tuple[list[str], list[str]]:
    """The text to train on and what is held out of it; nothing for a recipe that makes its own examples."""
    if recipe.reads_text and path is None:
        raise TrainingError("This recipe learns from a text. Give one: --text FILE.")
    if path is not None and not recipe.reads_text:
        raise TrainingError("This recipe makes its own examples. Leave --text out.")
    return split_books(_read(path)) if path else ([], [])


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TrainingError(f"The text {path} cannot be read as UTF-8: {error}.") from error


def _tokenizer(folder: Path, beginnings: list[str], vocab_size: int) -> Tokenizer:
    """The tokenizer of the folder, or a new one trained on the training part of the text."""
    path = folder / TOKENIZER_FILE
    is_new = not path.exists()
    tokenizer = train_tokenizer("\n".join(beginnings), vocab_size) if is_new else Tokenizer.load(folder, vocab_size)
    if tokenizer.vocab_size != vocab_size:
        remedy = "Give a longer text" if is_new else f"Remove {path}, or train into another folder"
        raise TrainingError(
            f"The recipe asks for {vocab_size:,} tokens, but the tokenizer has {tokenizer.vocab_size:,}. {remedy}."
        )
    if is_new:
        folder.mkdir(parents=True, exist_ok=True)
        tokenizer.save(folder)
    return tokenizer


def _print(report: StepReport) -> None:
    left = time.strftime("%H:%M:%S", time.gmtime(report.seconds_left))
    print(
        f"step {report.step}/{report.steps}  {report.objective}  loss {report.loss:.3f}  "
        f"{report.tokens_per_second:,.0f} tokens/s  {left} left",
        flush=True,
    )


if __name__ == "__main__":
    try:
        main()
    except VizError as error:
        sys.exit(str(error))
