"""Model: the one face that the pages know: name, facts, tokenizer, trace, generate."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Self

import torch
from torch import Tensor

from viz_model.arguments import dense, of_type, real_number, said
from viz_model.errors import MaskError
from viz_model.memory_limits import WRITTEN_OUT_BYTES
from viz_model.model.edits import Edit, edits_of
from viz_model.model.generation import Step, generate
from viz_model.model.overflow import refuse_overflow
from viz_model.model.prompts import Prompt, PromptReader, Tokens
from viz_model.model.trace import Trace
from viz_model.transformer import masks
from viz_model.transformer.changes import Change, settled, with_changes
from viz_model.transformer.hooks import capture, unwatched
from viz_model.transformer.host import Host
from viz_model.transformer.placed import ComputePlace

ALWAYS_HELD = ("*.q", "*.k", "*.v", "*.mask", "*.mixed")
WRITTEN_OUT = ("*.raw", "*.scores", "*.weights")
HELD_WHERE_PRESENT = ("*embed*", "*.resid_*", "*final_norm", "logits", "*.q_pre", "*.k_pre", "*.bias", "*.sinks")
HELD_WITH_WEIGHTS = ("*.attn.out", "*.cross.out", "*.capped")
HELD_OF_POST_NORM = ("*.ffn.out",)  # of others it is a difference of two streams that are held

MOST_WRITTEN = 64  # tokens, when an encoder-decoder is asked what it writes itself

Mask = str | Tensor | None


class Model(PromptReader):
    """What pages and notebooks work with: a model that reads prompts, traces them, and goes on writing.

    place: where it computes, and in which precision; its numbers are seen on the CPU in float32.
    """

    place = ComputePlace()

    def __repr__(self) -> str:
        heads = f"{self.config.n_layers} layers × {self.config.n_heads} heads"
        edits = ", edited" if self.edits else ""
        return f"<{type(self).__name__} {self.name}: {self.config.layout}, {heads}{edits}>"

    def difference(self, trace: Trace) -> float:
        """The largest difference of a logit of a trace's last token from a pass in float32 on the CPU.

        Of a model without an unembedding, of a number of the last final hidden state. 0 where the model computes so.
        """
        if self.place.is_plain:
            return 0.0
        given = {} if trace.source is None else {"source": torch.tensor([trace.source.ids])}
        if not trace.own_mask:
            masks = {part: trace.of(part).mask(0) for part in trace.config.parts}
            given["mask"] = masks if trace.source else masks["self"]
        return self.transformer.difference(torch.tensor([trace.read.ids]), **given)

    def edited(self, edits: Sequence[Edit]) -> Self:
        """The same model, in each of whose passes these edits are made: traces, generations, ablations, and all else.

        edits: `vm.SwitchOff`, `vm.ScaleHead`, `vm.SetWeight`, `vm.SetValues` and `vm.AddVector`, after those that the
        model already has. At one hook site the first comes first. They come before what `vm.edit` does there, and
        `vm.capture` holds what they made. What they need of other prompts is worked out now, without any edit. A pass
        over a text that has not the token that an edit is of is not changed by it; `trace` and `generate` refuse such.

        Raises EditError for what does not fit the model, and PromptError for a prompt that it cannot read.
        """
        edits = edits_of(edits)
        plain = self._with((), ())
        more = [change for edit in edits for change in edit.changes(plain)]
        return self._with((*self.edits, *edits), [*self.transformer.changes, *more])

    def under_edits_of(self, other: Self) -> Self:
        """This model with the edits of another one instead of its own: of one from which it was made, with weights
        rounded or under other positions. What they put in are the very tensors that they put into the other one.

        Raises VizError for what is no Model.
        """
        other = of_type("The other model", other, Model, "a Model, such as vm.load gives")
        return self._with(other.edits, other.transformer.changes)

    def settled(self, prompt: Prompt, target: Prompt | None = None) -> Self:
        """The same model for texts that begin with this prompt: a mean over the prompt is from now on that of this one.

        target: of an encoder-decoder, what its decoder begins with; None is its start token alone.
        Raises PromptError as `trace`, and EditError for what cannot be changed while the model writes.
        """
        for edit in self.edits:
            edit.refuse_writing()
        ids, given = self.encode(prompt), {}
        if self.has_source:
            given = {"source": torch.tensor([ids])}
            ids = [self.start_token] if target is None else self.encode_target(target)

        def run(host: Host) -> None:
            with torch.inference_mode(), unwatched():
                host.hidden(torch.tensor([ids]), **given)

        return self._with(self.edits, settled(self.transformer, run))

    def _with(self, edits: Sequence[Edit], changes: Sequence[Change]) -> Self:
        model = copy.copy(self)
        model.edits, model.transformer = tuple(edits), with_changes(self.transformer, changes)
        return model

    def written(self, prompt: Prompt) -> list[int]:
        """What an encoder-decoder reads when it writes by itself, greedily: the start token and all that follow.

        Up to the end of the text, the model's own greatest length, or `MOST_WRITTEN` tokens. Captures and edits do not
        reach these passes.
        """
        longest = self.writing_rules.longest or self.config.context_length
        most = min(MOST_WRITTEN, longest - 1, self.config.context_length - 1)
        with unwatched():
            ids = [self.start_token]
            for step in self.generate(prompt, max_new_tokens=most, temperature=0.0):
                ids = [*step.ids[:-1]] if step.is_end else [*step.ids]
        return ids

    def trace(
        self,
        prompt: Prompt,
        mask: Mask | Mapping[str, Mask] = None,
        target: Prompt | None = None,
        *,
        edits: Sequence[Edit] = (),
        stored_weights_bytes: int = 0,
    ) -> Trace:
        """Run the prompt (text or ids) once and hold what attention made of it.

        mask: None for the model's own, a name of `masks.NAMES`, or booleans (T,S), True where a query may
        attend. Of an encoder-decoder that is the decoder's on itself; a mapping gives one for each of its parts.
        target: of an encoder-decoder, whose prompt is the source, what the decoder reads (`encode_target`); None is
        what the model itself writes under its own masks (`written`).
        edits: what is changed in the pass, see `edited`.
        stored_weights_bytes: scores and weights of all heads are kept as computed while the weights take at most so
        many bytes. Else they are derived when they are asked for, from Q, K and mask: to write all of them out makes a
        pass of GPT-2 small over 256 tokens a third slower and its trace four times as large, and to derive a head
        takes a fraction of a millisecond. Where the pass has to write them out because somebody edits one, that layer's
        are kept.

        Raises PromptError and MaskError with sentences fit for the screen, and CheckpointError where the numbers
        of the pass overflow; EditError where that comes of an edit, and for one that fits neither model nor prompt.
        """
        if edits_of(edits):
            return self.edited(edits).trace(prompt, mask, target, stored_weights_bytes=stored_weights_bytes)
        ids, source, pieces = self.encode(prompt), None, self.pieces(prompt)
        if self.has_source:
            ids, source = self.written(ids) if target is None else self.encode_target(target), ids
            pieces, source_pieces = self.target_pieces(target, ids), pieces
        elif target is not None:
            self.encode_target(target)  # says why there is none
        weights_bytes = self._weights_bytes(ids, source)
        stored = weights_bytes <= real_number("stored_weights_bytes", stored_weights_bytes)
        required = (*ALWAYS_HELD, *WRITTEN_OUT) if stored else ALWAYS_HELD
        optional = (*HELD_WHERE_PRESENT, *HELD_WITH_WEIGHTS) if stored else HELD_WHERE_PRESENT
        # What the model's own edits make of them can be derived; what those of others make (`vm.edit`) cannot.
        if_made = () if self.edits and weights_bytes > WRITTEN_OUT_BYTES else WRITTEN_OUT
        optional = (*optional, *HELD_OF_POST_NORM) if self.config.norm_place == "post" else optional
        given = {} if source is None else {"source": torch.tensor([source])}
        with torch.inference_mode(), capture(*required, optional=optional, if_made=if_made) as found:
            allowed, mask_names = self._masks(mask, self._lengths(ids, source))
            self.transformer(torch.tensor([ids]), mask=allowed, **given)
            refuse_overflow(self.name, found, bool(self.edits))
        trace = Trace(
            config=self.config,
            part=self.config.self_part,
            read=Tokens(tuple(ids), tuple(pieces)),
            source=None if source is None else Tokens(tuple(source), tuple(source_pieces)),
            mask_names=mask_names,
            tensors={name: _without_batch(name, tensor) for name, tensor in found.items()},
            host=self.transformer,
            edits=self.edits,
        )
        for edit in self.edits:
            edit.refuse_pass(trace)
        return trace

    def generate(self, prompt: Prompt, *, edits: Sequence[Edit] = (), **choices) -> Iterator[Step]:
        """Continue the prompt token by token; see `generation.generate` for the choices.

        edits: what is changed in each pass, see `edited`. An edit of a token that is not written yet waits for it; a
        mean over the prompt stays that of the prompt.
        """
        return generate(self.edited(edits), prompt, **choices)

    def _lengths(self, ids: list[int], source: list[int] | None) -> dict[str, tuple[int, int]]:
        """T and S of each part."""
        read, from_source = len(ids), len(source or ())
        lengths = {"encoder": (from_source, from_source), "cross": (read, from_source)}
        return {part: lengths.get(part, (read, read)) for part in self.config.parts}

    def _weights_bytes(self, ids: list[int], source: list[int] | None) -> int:
        config, lengths = self.config, self._lengths(ids, source)
        return sum(4 * config.layers_of(part) * config.n_heads * t * s for part, (t, s) in lengths.items())

    def _masks(self, mask: Mask | Mapping[str, Mask], lengths: dict[str, tuple[int, int]]):
        """What the transformer is given, and the name of each part's mask; its own masks it makes itself."""
        chosen = mask if isinstance(mask, Mapping) else {self.config.self_part: mask}
        strange = [part for part in chosen if part not in lengths]
        if strange:
            raise MaskError(f"There is no part {said(strange[0])} for a mask: {self.name} has {', '.join(lengths)}.")
        allowed, names = {}, {}
        for part, (queries, keys) in lengths.items():
            own, asked = self.config.mask_of(part), chosen.get(part)
            is_own = asked is None or (isinstance(asked, str) and asked == own)
            allowed[part], names[part] = (None, own) if is_own else _mask(asked, queries, keys)
        return (allowed if self.has_source else allowed[self.config.self_part]), names


def _mask(mask: str | Tensor, queries: int, keys: int) -> tuple[Tensor, str]:
    if isinstance(mask, str):
        return masks.between(mask, torch.arange(queries), torch.arange(keys)), mask
    wanted = f"A mask for {queries} queries and {keys} keys is a tensor of booleans of shape ({queries}, {keys})"
    if not isinstance(mask, Tensor):
        raise MaskError(f"{wanted}, or one of the names {', '.join(masks.NAMES)}; this is none of them.")
    if mask.dtype != torch.bool or mask.shape != (queries, keys):
        raise MaskError(f"{wanted}; this one is {mask.dtype} of shape {tuple(mask.shape)}.")
    dense("A mask", mask, error=MaskError)
    return mask.clone(), "custom"  # a copy: what is drawn later must not change with the caller's


def _without_batch(name: str, tensor: Tensor) -> Tensor:
    return tensor if name.endswith((".mask", ".bias", ".sinks")) else tensor[0]
