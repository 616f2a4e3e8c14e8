"""The tokenizer that a model of the transformers library brings, with the face of our own."""

from pathlib import Path

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from viz_model.errors import CheckpointError, PromptError
from viz_model.model.tokenizer import refuse_half_characters

# GPT-2's byte-level tokenizers write each byte as a letter (Radford et al. 2019, encoder.py): those that print stand
# for themselves, the others follow from 256 on.
PRINTED = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
OTHERS = [byte for byte in range(256) if byte not in PRINTED]
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
        self._bytes = _kind_of(tokenizer)

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Ids of the text; special: with the control tokens that the model expects around it.

        Raises PromptError for half of a surrogate pair, and for a token that the model has no number for.
        """
        refuse_half_characters(text)
        ids = self._tokenizer(text, add_special_tokens=special, verbose=False)["input_ids"]
        strange = [token for token in ids if token >= self.vocab_size]
        if strange:
            raise PromptError(
                f"The tokenizer knows the token {self._tokenizer.convert_ids_to_tokens(strange[0])!r}, but the model "
                "does not. Leave it out."
            )
        return ids

    def decode(self, ids: list[int]) -> str:
        """Text of the ids."""
        return self._tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)

    def token_bytes(self, token: int) -> bytes:
        """The bytes of one token, a space before it included: "Ġthe", "▁the" and WordPiece's "the" are b" the".

        A piece that continues a word ("##ing") has none. Ids beyond the tokenizer, which some models have for the
        sake of round numbers, are written <id>.
        """
        written = self._tokenizer.convert_ids_to_tokens(token)
        if written is None:
            return f"<{token}>".encode()
        if token in self.special_ids or token in self._tokenizer.added_tokens_decoder:
            return written.encode()
        return self._bytes(written)

    def chat(self, text: str) -> list[int] | None:
        """The ids of the text as a user's message in the model's chat template, ready for an answer; or None.

        The template alone says which control tokens there are: none is added to those that it writes.
        Raises PromptError where it refuses the text.
        """
        if not self._tokenizer.chat_template:
            return None
        refuse_half_characters(text)
        messages = [{"role": "user", "content": text}]
        try:
            written = self._tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        except Exception as error:  # a template is a program, and may raise what it likes
            raise PromptError(
                f"The chat template of this model refuses the prompt: {error}. Choose “raw” in the sidebar."
            ) from error
        return self.encode(written, special=False)


def load_tokenizer(folder: Path, gguf: Path | None, vocab_size: int, ends: frozenset[int]) -> HubTokenizer:
    """The tokenizer of a folder, or of its GGUF file; raises CheckpointError when it cannot be read."""
    options = {"gguf_file": gguf.name} if gguf else {}
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False, **options)
    except Exception as error:  # many kinds, by the kind of tokenizer
        raise CheckpointError(
            f"The tokenizer of {folder} cannot be read: {error}. Restore its files, or remove them all to trace by ids."
        ) from error
    return HubTokenizer(tokenizer, vocab_size, ends)


def _kind_of(tokenizer: PreTrainedTokenizerBase):
    """How this tokenizer writes a token's bytes: by letters for bytes, by pieces with ▁, or by pieces with ##."""
    pieces = tokenizer.get_vocab()
    if "Ġ" in pieces or any(piece.startswith("Ġ") for piece in pieces):
        return _of_byte_letters
    if any(piece.startswith("▁") for piece in pieces):
        return _of_sentence_piece
    if any(piece.startswith("##") for piece in pieces):
        return _of_word_piece
    return str.encode


def _of_byte_letters(written: str) -> bytes:
    if all(letter in BYTE_OF for letter in written):
        return bytes(BYTE_OF[letter] for letter in written)
    return written.encode()


def _of_sentence_piece(written: str) -> bytes:
    if len(written) == 6 and written.startswith("<0x") and written.endswith(">"):
        return bytes([int(written[3:5], 16)])
    return written.replace("▁", " ").encode()


def _of_word_piece(written: str) -> bytes:
    if written.startswith("##"):
        return written[2:].encode()
    begins_a_word = written[:1].isalnum()
    return f" {written}".encode() if begins_a_word else written.encode()
