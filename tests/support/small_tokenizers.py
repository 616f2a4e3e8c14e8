"""Small tokenizers for tests: trained on a text made on the fly, or put together token by token."""

from functools import cache

from viz_model.model.tokenizer import Tokenizer

WORDS = (
    "the king had three daughters and a castle",
    "Über den Bäumen 日本語 👍",
    "she's 12 years old, isn't she?",
)


def ranks(*merged):
    """The 256 bytes, then these tokens in order."""
    return {bytes([byte]): byte for byte in range(256)} | {token: 256 + n for n, token in enumerate(merged)}


def small_tokenizer():
    """261 tokens: bytes, a few merges, the control token."""
    return Tokenizer(ranks(b"th", b"the", b" the", b" a"))


@cache
def story():
    """A few thousand words, in two books of many paragraphs."""
    lines = [" ".join(f"{word} {n % 7}" for word in WORDS[: 1 + n % 3]) for n in range(400)]
    return "\n".join(lines[:150]) + "\n\n" + "\n".join(lines[150:])
