"""What a model's files forbid or fix where it writes, whatever its logits are: the library's generation config."""

from collections.abc import Sequence
from dataclasses import dataclass

from viz_model.arguments import of_type, whole_number

# Settings that change what the library writes greedily, that are not followed here, and the values that change nothing.
NOT_FOLLOWED = {
    "num_beams": (1,), "penalty_alpha": (0,), "repetition_penalty": (1,), "encoder_repetition_penalty": (1,),
    "encoder_no_repeat_ngram_size": (0,), "sequence_bias": (), "exponential_decay_length_penalty": (),
    "guidance_scale": (1,), "min_new_tokens": (0,), "stop_strings": (), "watermarking_config": (), "dola_layers": (),
    "token_healing": (False,), "max_time": (), "constraints": (), "force_words_ids": (),
}  # fmt: skip


@dataclass(frozen=True)
class WritingRules:
    """first: the id that follows a single start token (`forced_bos_token_id`). longest: how many tokens the text has
    at most, prompt or start token included (`max_length`), and last: the id that is its last one then
    (`forced_eos_token_id`). never: runs of ids of which the last is not written behind the others (`suppress_tokens`,
    `bad_words_ids`). never_first: ids that no text begins with (`begin_suppress_tokens`). no_repeat: how long the runs
    are that may stand only once in a text; 0: any may (`no_repeat_ngram_size`). shortest: before so many tokens no text
    ends (`min_length`). not_followed: names of settings that are not followed here.
    """

    first: int | None = None
    longest: int | None = None
    last: int | None = None
    never: tuple[tuple[int, ...], ...] = ()
    never_first: frozenset[int] = frozenset()
    no_repeat: int = 0
    shortest: int = 0
    not_followed: tuple[str, ...] = ()

    def fixed(self, ids: Sequence[int]) -> int | None:
        """The id that comes after these, whatever the logits are; None where none is fixed."""
        if len(of_type("The ids", ids, Sequence, "a list of ids")) == 1 and self.first is not None:
            return self.first
        return self.last if self.longest is not None and len(ids) == self.longest - 1 else None

    def forbidden(self, ids: Sequence[int], begun_with: int, ends: frozenset[int]) -> frozenset[int]:
        """The ids that do not come after these. begun_with: how many of them were there before anything was written."""
        ids = tuple(of_type("The ids", ids, Sequence, "a list of ids"))
        begun_with = whole_number("begun_with", begun_with, 0)
        of_type("ends", ends, frozenset | set, "a set of ids")
        found = {run[-1] for run in self.never if ids[max(0, len(ids) - len(run) + 1) :] == run[:-1]}
        if len(ids) == begun_with + (begun_with == 1 and self.first is not None):
            found |= self.never_first
        if self.no_repeat and len(ids) + 1 >= self.no_repeat:
            before = ids[len(ids) - self.no_repeat + 1 :]
            runs = (ids[at : at + self.no_repeat] for at in range(len(ids) - self.no_repeat + 1))
            found |= {run[-1] for run in runs if run[:-1] == before}
        return frozenset(found | ends if len(ids) < self.shortest else found)
