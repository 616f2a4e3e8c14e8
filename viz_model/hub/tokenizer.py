"""The tokenizer that a model of the transformers library brings, with the face of our own."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from transformers import AutoTokenizer, BatchEncoding, PreTrainedTokenizerBase

from viz_model.errors import CheckpointError, PromptError
from viz_model.model.tokenizer import no_panic, refuse_half_characters

# GPT-2's byte-level tokenizers write each byte as a letter (Radford et al. 2019, encoder.py): those that print stand
# for themselves, the others follow from 256 on.
PRINTED = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
OTHERS = [byte for byte in range(256) if byte not in PRINTED]
FALLBACK_BYTE = re.compile("<0x([0-9A-F]{2})>")  # how SentencePiece writes a byte of a character that it has not
BYTE_OF = {chr(byte): byte for byte in PRINTED} | {chr(256 + place): byte for place, byte in enumerate(OTHERS)}


class HubTokenizer:
    """Text to ids and back. Unlike ours it reads control tokens such as [MASK] out of a text, as its library does."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, vocab_size: int, ends: frozenset[int]):
        self._tokenizer, self.vocab_size = tokenizer, vocab_size
        self.end_of_text = min(ends) if ends else tokenizer.eos_token_id
        self.mask = tokenizer.mask_token_id
        self.special_ids = frozenset(tokenizer.all_special_ids)
        # Those that stand for no piece of a text: behind a mask, or an unknown word, there is one. GPT-2's unknown
        # token is also its end.
        roles = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.cls_token_id, tokenizer.sep_token_id)
        pieces = {tokenizer.mask_token_id, tokenizer.unk_token_id} - {*roles, tokenizer.pad_token_id}
        self.signs = self.special_ids - pieces
        # Tokens that stand in the text as they are named; the library makes this table anew whenever it is asked.
        self._names = self.special_ids | set(tokenizer.added_tokens_decoder)
        self._bytes = _bytes_by_decoder(tokenizer)

    def is_separator(self, segments: Callable[[list[int]], list[int]]) -> bool:
        """Whether the library itself puts a pair of texts into the segments that this rule gives its ids."""
        try:
            pair = self._tokenizer("a", "b", return_token_type_ids=True)
        except Exception:  # a tokenizer without pairs; each class has an error of its own
            return False
        known = pair.get("token_type_ids") or []
        return 1 in known and segments(pair["input_ids"]) == known

    @property
    def separator(self) -> int | None:
        """The control token between two texts, if there is one."""
        return self._tokenizer.sep_token_id

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Ids of the text; special: with the control tokens that the model expects around it.

        Raises PromptError for half of a surrogate pair, and for a token that the model has no number for.
        """
        return self._read(text, special)["input_ids"]

    def pieces(self, text: str, *, special: bool = True) -> list[bytes]:
        """What each token of `encode` stands for; those of the text, put together, are the text that was typed.

        The space before a word is at the word. Of the tokens of one character, each has its bytes where the tokenizer
        keeps them; else the first that is no space has all. A control token is its name, and so is the token for a
        word that the tokenizer does not know. Errors as `encode`.
        """
        read = self._read(text, special)
        ids = read["input_ids"]
        known = {token: self.token_bytes(token) for token in set(ids)}  # a long text has each many times
        pieces, inside = [known[token] for token in ids], self._places_of_text(read)
        joined, typed = b"".join(pieces[place] for place in inside), text.encode()
        if joined == typed:
            return pieces
        if joined == b" " + typed and pieces[inside[0]].startswith(b" "):  # SentencePiece reads a text as a word
            pieces[inside[0]] = pieces[inside[0]][1:]
        elif inside and read.is_fast:
            self._cut_by_offsets(text, read, inside, pieces)
        return pieces

    def decode(self, ids: list[int]) -> str:
        """Text of the ids."""
        return self._tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token alone, as the tokenizer's decoder says: "Ġthe" and "▁the" are b" the".

        WordPiece keeps no spaces: its "the" is b"the", and "##ing" continues a word. Ids beyond the tokenizer, which
        some models have for the sake of round numbers, are written <id>.
        """
        written = self._tokenizer.convert_ids_to_tokens(token)
        if written is None:
            return f"<{token}>".encode()
        if token in self._names:
            return written.encode()
        return self._bytes(written)

    def _read(self, text: str, special: bool) -> BatchEncoding:
        refuse_half_characters(text)
        offsets = self._tokenizer.is_fast
        try:
            with no_panic():
                read = self._tokenizer(text, add_special_tokens=special, return_offsets_mapping=offsets, verbose=False)
        except PromptError:
            raise
        except Exception as error:  # each class has errors of its own, such as for a vocabulary without [UNK]
            raise PromptError(
                f"The tokenizer of this model cannot cut this text into tokens: {error}. Its files are damaged. "
                "Restore them, or give token ids."
            ) from error
        strange = [token for token in read["input_ids"] if token >= self.vocab_size]
        if strange:
            raise PromptError(
                f"The tokenizer knows the token {self._tokenizer.convert_ids_to_tokens(strange[0])!r}, but the model "
                "does not. Leave it out."
            )
        return read

    def _places_of_text(self, read: BatchEncoding) -> list[int]:
        """Where tokens stand for a part of the text, and were not put around it."""
        if read.is_fast:
            return [place for place, sequence in enumerate(read.sequence_ids(0)) if sequence is not None]
        return [place for place, token in enumerate(read["input_ids"]) if token not in self.signs]

    def _cut_by_offsets(self, text: str, read: BatchEncoding, inside: list[int], pieces: list[bytes]) -> None:
        """Cut the text where the tokenizer says that its tokens begin and end, and put the parts into `pieces`."""
        spans, done = read["offset_mapping"], 0
        groups = _overlapping(inside, spans)
        starts = [*(spans[group[0]][0] for group in groups[1:]), len(text)]
        for group, next_start in zip(groups, starts, strict=True):
            end = max(done, *(spans[place][1] for place in group))
            while end < next_start and (group is groups[-1] or not text[end].isspace()):
                end += 1  # what was dropped from the text, such as an accent, stays with the token before it
            part, alone = text[done:end].encode(), b"".join(pieces[place] for place in group)
            if read["input_ids"][group[0]] == self._tokenizer.unk_token_id:
                start, stop = max(done, spans[group[0]][0]), max(done, spans[group[0]][1])
                pieces[group[0]] = text[done:start].encode() + pieces[group[0]] + text[stop:end].encode()
            elif part.endswith(alone):
                pieces[group[0]] = part.removesuffix(alone) + pieces[group[0]]
            else:
                first = next((place for place in group if pieces[place].strip()), group[0])
                for place in group:
                    pieces[place] = part if place == first else b""
            done = end

    @property
    def has_chat(self) -> bool:
        """Whether the model brings a template for chats, which may still refuse a text."""
        return bool(self._tokenizer.chat_template)

    def in_chat(self, text: str) -> str | None:
        """The text as a user's message in the model's chat template, ready for an answer; or None.

        The template alone says which control tokens there are, so none is to be added to those that it writes.
        Raises PromptError where it refuses the text.
        """
        if not self.has_chat:
            return None
        refuse_half_characters(text)
        messages = [{"role": "user", "content": text}]
        try:
            return self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        except Exception as error:  # a template is a program, and may raise what it likes
            raise PromptError(
                f"The chat template of this model refuses the prompt: {error}. Choose “raw” in the sidebar."
            ) from error


def load_tokenizer(folder: Path, gguf: Path | None, vocab_size: int, ends: frozenset[int]) -> HubTokenizer:
    """The tokenizer of a folder, or of its GGUF file; raises CheckpointError when it cannot be read."""
    options = {"gguf_file": gguf.name} if gguf else {}
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False, **options)
    except Exception as error:  # many kinds, by the kind of tokenizer
        raise CheckpointError(
            f"The tokenizer of {folder} cannot be read: {error}. Restore its files, or remove them all and type token "
            "ids."
        ) from error
    return HubTokenizer(tokenizer, vocab_size, ends)


def _overlapping(places: Sequence[int], spans: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The tokens, those of the same characters together."""
    groups: list[list[int]] = []
    reached = 0
    for place in places:
        start, end = spans[place]
        if groups and start < reached and end > start:
            groups[-1].append(place)
        else:
            groups.append([place])
        reached = max(reached, end)
    return groups


def _bytes_by_decoder(tokenizer: PreTrainedTokenizerBase) -> Callable[[str], bytes]:
    """How a token's bytes are read from how the vocabulary writes it: what the tokenizer makes of pieces tells.

    The vocabulary does not: any of them may have a piece that begins with Ġ, ▁ or ##.
    """

    def decoded(*written: str) -> str:
        try:
            return tokenizer.convert_tokens_to_string([*written])
        except Exception:  # ByT5 knows single letters only, and each class has an error of its own
            return ""

    if decoded("aĠb") == "a b":
        return _of_byte_letters
    if decoded("Ã", "©") == "é":  # ByT5: a byte is the letter of its number
        return lambda written: written.encode("latin-1") if len(written) == 1 else written.encode()
    if decoded("a", "b") == "a b":  # WordPiece: it parts all words by spaces, typed or not
        return str.encode
    has_bytes = decoded("a", "<0xC3>", "<0xA9>") == "aé"

    def behind_another(written: str) -> bytes:
        byte = FALLBACK_BYTE.fullmatch(written) if has_bytes else None
        text = decoded("a", written)
        return bytes.fromhex(byte[1]) if byte else (text[1:] if text.startswith("a") else written).encode()

    return behind_another


def _of_byte_letters(written: str) -> bytes:
    if all(letter in BYTE_OF for letter in written):
        return bytes(BYTE_OF[letter] for letter in written)
    return written.encode()
