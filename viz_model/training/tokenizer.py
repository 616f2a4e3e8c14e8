"""Train the byte-pair ranks on a text, with the Rust trainer of the `tokenizers` package."""

import json

from viz_model.model.tokenizer import WORDS, Tokenizer


def train_tokenizer(text: str, vocab_size: int) -> Tokenizer:
    """256 bytes, merged tokens, most frequent pairs first (Sennrich et al. 2016, §3.2), a control token.

    `vocab_size` tokens in all, or fewer where the text is too short to have so many pairs.

    `tokenizers` writes bytes as printable letters; its merges in order are tiktoken's ranks.
    """
    from tokenizers import Regex, pre_tokenizers
    from tokenizers import Tokenizer as RustTokenizer
    from tokenizers.models import BPE
    from tokenizers.trainers import BpeTrainer

    trained = RustTokenizer(BPE())
    trained.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORDS), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = BpeTrainer(vocab_size=vocab_size - 1, initial_alphabet=alphabet, show_progress=False)
    trained.train_from_iterator(text.splitlines(keepends=True), trainer)

    byte_of = byte_of_letter()
    ranks = {bytes([byte]): byte for byte in range(256)}
    for left, right in json.loads(trained.to_str())["model"]["merges"]:
        # Two pairs may make the same token; the first of them ranks it.
        ranks.setdefault(bytes(byte_of[letter] for letter in left + right), len(ranks))
    return Tokenizer(ranks)


def byte_of_letter() -> dict[str, int]:
    """GPT-2's printable letter for each byte, turned round: printable Latin-1 stands for itself."""
    printable = [byte for first, last in ("!~", "¡¬", "®ÿ") for byte in range(ord(first), ord(last) + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}
