"""Tokenizers of the bundled models: a tiktoken Encoding over byte-pair ranks that lie beside the model.

tiktoken's own named encodings are downloaded at first use; ours are a file of the tiktoken format, one
`base64(bytes) rank` a line. Byte-pair encoding: Sennrich et al. 2016; over bytes: Radford et al. 2019, §2.2.
"""

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import tiktoken

from viz_model.arguments import of_type, said, whole_number
from viz_model.errors import CheckpointError, PromptError
from viz_model.memory_limits import why_not_written

END_OF_TEXT, MASK = "<|endoftext|>", "<|mask|>"

# How GPT-2 cuts text into words before pairs are merged: a space belongs to the word behind it.
WORDS = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

FILE_NAME = "tokenizer.tiktoken"


def refuse_half_characters(text: str) -> None:
    """Raises PromptError for half of a surrogate pair, which is no text, and for what is none at all."""
    of_type("The prompt", text, str, "a text", PromptError)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise PromptError(
            f"Character {error.start + 1} of the text is half of a surrogate pair, which is not a "
            "character by itself. Delete it and type the character again."
        ) from error


@contextmanager
def no_panic() -> Iterator[None]:
    """Raises PromptError where a tokenizer in Rust gives up on a text, such as a million spaces in a row.

    What it raises is no Exception, and its class can be named only: there is no module to import it from.
    """
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise PromptError("The tokenizer cannot cut this text into tokens, for it is too long. Shorten it.") from None


class Tokenizer:
    """Text to ids and back, loss-free for any Unicode text.

    Control tokens such as `<|endoftext|>` are never read out of a person's text: typed, they are text.
    """

    def __init__(self, ranks: dict[bytes, int], name: str = "byte-level BPE", *, with_mask: bool = False):
        self.end_of_text = len(ranks)
        self.mask = len(ranks) + 1 if with_mask else None  # what stands in the place of a hidden token
        control = {END_OF_TEXT: self.end_of_text} | ({MASK: self.mask} if with_mask else {})
        self.special_ids = frozenset(control.values())
        self.signs = frozenset({self.end_of_text})  # a mask stands for a piece of the text
        self.encoding = tiktoken.Encoding(name=name, pat_str=WORDS, mergeable_ranks=ranks, special_tokens=control)

    @property
    def vocab_size(self) -> int:
        """V: bytes, merged tokens and control tokens."""
        return self.encoding.n_vocab

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Ids of the text; raises PromptError for half of a surrogate pair, which is no text.

        special: with the control tokens that a model expects around a text; these models expect none.
        """
        refuse_half_characters(text)
        with no_panic():
            return self.encoding.encode_ordinary(text)

    has_chat = False  # whether there is a template for chats

    def in_chat(self, text: str) -> str | None:
        """The text in a chat template; these models have none."""
        return None

    def decode(self, ids: list[int]) -> str:
        """Text of the ids; bytes that are no complete character become U+FFFD. Raises PromptError as `token_bytes`."""
        of_type("The ids", ids, list | tuple, "a list of whole numbers", PromptError)
        return b"".join(map(self.token_bytes, ids)).decode(errors="replace")

    def token_bytes(self, token: int) -> bytes:
        """The exact bytes of one token; a token may hold part of a character only. Raises PromptError for no token."""
        token = whole_number("A token id", token, 0, self.vocab_size - 1, PromptError)
        return self.encoding.decode_single_token_bytes(token)

    def pieces(self, text: str, *, special: bool = True) -> list[bytes]:
        """What each token of `encode` stands for; put together, they are the text."""
        ids = self.encode(text, special=special)
        known = {token: self.token_bytes(token) for token in set(ids)}  # a long text has each many times
        return [known[token] for token in ids]

    @classmethod
    def of_bytes(cls) -> "Tokenizer":
        """The 256 bytes alone, none of them merged."""
        return cls({bytes([byte]): byte for byte in range(256)}, "bytes")

    @classmethod
    def load(cls, folder: Path, vocab_size: int | None = None) -> "Tokenizer":
        """Read `tokenizer.tiktoken` of a checkpoint folder; raises CheckpointError when it is damaged.

        The file lists no control tokens. A model with a vocabulary of two more than the file has reads a mask
        token too, next to the end of text.
        """
        path = Path(of_type("The folder", folder, str | Path, "a path", CheckpointError)) / FILE_NAME
        wanted = None if vocab_size is None else whole_number("The vocabulary", vocab_size)
        try:
            lines = path.read_text("ascii").splitlines()
            pairs = [line.split() for line in lines if line]
            ranks = {base64.b64decode(token, validate=True): int(rank) for token, rank in pairs}
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"The tokenizer file {path} cannot be read: {error}. Restore it and try again."
            ) from error
        missing = [byte for byte in range(256) if bytes([byte]) not in ranks]
        if missing or sorted(ranks.values()) != list(range(len(pairs))):
            raise CheckpointError(
                f"The tokenizer file {path} is damaged: a single byte is missing, a token or a rank stands "
                "there twice, or the ranks have gaps. Restore it and try again."
            )
        return cls(ranks, Path(folder).name, with_mask=wanted == len(ranks) + 2)

    def save(self, folder: Path) -> None:
        """Write `tokenizer.tiktoken` into the folder; raises CheckpointError where it cannot be written."""
        folder = Path(of_type("The folder", folder, str | Path, "a path", CheckpointError))
        tokens = (base64.b64encode(self.token_bytes(rank)).decode() for rank in range(self.end_of_text))
        lines = "".join(f"{token} {rank}\n" for rank, token in enumerate(tokens))
        try:
            (folder / FILE_NAME).write_text(lines, "ascii")
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"The tokenizer cannot be written to {said(str(folder))}. {why_not_written(error)}"
            ) from error
