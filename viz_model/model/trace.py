"""Trace: what one forward pass left behind, and what can be derived from it."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import torch
from torch import Tensor

from viz_model.arguments import of_type, said, text, whole_number
from viz_model.attribution.lens import TokenLens, lens, read_tokens
from viz_model.attribution.logits import MEAN, LogitTerms, logit_terms
from viz_model.attribution.scores import ROW, ScoreTerms, score_terms
from viz_model.attribution.sources import LogitSources, logit_sources
from viz_model.errors import VizError
from viz_model.jobs import Tell, untold
from viz_model.memory_limits import DERIVED_AT_ONCE_BYTES
from viz_model.model.edits import Edit
from viz_model.model.prompts import Tokens
from viz_model.transformer.attention import Equation, attention_weights, raw_scores, softmax_input
from viz_model.transformer.changes import changed, changed_heads
from viz_model.transformer.facts import ModelFacts
from viz_model.transformer.host import Host

LONGEST_SITE = 100  # letters of a name; those of longer ones are not compared with the names that there are


@dataclass(frozen=True, eq=False)
class Trace:
    """The tensors of one pass over one prompt, without the batch dimension, seen through one of its parts.

    A model of one stack has the part "self". An encoder-decoder has "encoder" (the source reads itself), "decoder"
    (what the decoder reads, itself) and "cross" (this reads the source); `of` gives the same pass through another one.
    q, k, v, scores … speak of the part: T are its queries, S its keys, whose number differs in "cross".

    Raw scores, scores and weights are worked out from q, k and mask, one head at a time, by the very functions that
    write them out in a pass; `stored` says whether they were kept instead as they were computed (see `Model.trace`).
    Tensors are read-only: made in torch's inference mode, they
    refuse to be written to.

    read: what the stack that makes the logits reads; source: what the encoder reads, None where there is none.
    mask_names: which mask was used in each part. host: what ran. edits: what was changed in the pass, see
    `Model.edited`; all tensors are those of the changed pass.
    """

    config: ModelFacts
    part: str
    read: Tokens
    source: Tokens | None
    mask_names: Mapping[str, str]
    tensors: dict[str, Tensor]
    host: Host
    edits: tuple[Edit, ...] = ()

    def __repr__(self) -> str:
        """A line. A dataclass would print all tensors: thousands of lines, where a reader asked for a look."""
        heads = f"{self.n_layers} layers × {self.config.n_heads} heads"
        cells = f"{self.length} queries × {self.key_length} keys"
        return f"<Trace: {self.part}, {heads}, {cells}, {self.mask_name}; hook sites: list(trace.tensors)>"

    def of(self, part: str) -> "Trace":
        """The same pass through another part. Raises VizError for a part that the model does not have."""
        self.config.refuse_no_part(part)
        return replace(self, part=part)

    def renamed(self, mask_name: str) -> "Trace":
        """The same with another name for the mask of this part, as a person called it."""
        return replace(self, mask_names={**self.mask_names, self.part: text("The name of the mask", mask_name)})

    @property
    def queries(self) -> Tokens:
        """The T tokens that ask."""
        return self.source if self.part == "encoder" else self.read

    @property
    def keys(self) -> Tokens:
        """The S tokens that are read."""
        return self.source if self.part in ("encoder", "cross") else self.read

    @property
    def ids(self) -> tuple[int, ...]:
        return self.queries.ids

    @property
    def tokens(self) -> tuple[str, ...]:
        return self.queries.texts

    @property
    def token_bytes(self) -> tuple[bytes, ...]:
        return self.queries.pieces

    @property
    def length(self) -> int:
        """T, the number of queries."""
        return len(self.queries)

    @property
    def key_ids(self) -> tuple[int, ...]:
        return self.keys.ids

    @property
    def key_tokens(self) -> tuple[str, ...]:
        return self.keys.texts

    @property
    def key_token_bytes(self) -> tuple[bytes, ...]:
        return self.keys.pieces

    @property
    def key_length(self) -> int:
        """S, the number of keys."""
        return len(self.keys)

    @property
    def n_layers(self) -> int:
        """L, the layers that have this attention."""
        return self.config.layers_of(self.part)

    @property
    def stored(self) -> bool:
        """Whether scores and weights of every head are those that the pass wrote out."""
        return all(f"{self._attention_name(layer)}.weights" in self.tensors for layer in range(self.n_layers))

    @property
    def mask_name(self) -> str:
        return self.mask_names[self.part]

    @property
    def own_mask(self) -> bool:
        """Whether every part has the mask that it is made for."""
        return all(name == self.config.mask_of(part) for part, name in self.mask_names.items())

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors that are held; what stands under several sites (the mask) counts once."""
        storages = (tensor.untyped_storage() for tensor in self.tensors.values())
        return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())

    def __getitem__(self, site: str) -> Tensor:
        """The tensor of a hook site, such as "blocks.2.resid_mid"; a VizError if it is neither held nor derived."""
        found = self.tensors.get(text("The name of a hook site", site))
        found = self._derived(site) if found is None else found
        if found is None:
            near = ", ".join(difflib.get_close_matches(site[:LONGEST_SITE], self.tensors, n=4, cutoff=0.0))
            raise VizError(f"This trace does not hold {said(site)}. Similar names that it holds: {near}.")
        return found

    def _derived(self, site: str) -> Tensor | None:
        """Raw scores, scores or weights of all heads (H,T,S), by the name of their site; None for another site."""
        attention, _, what = site.rpartition(".")
        derive = {"raw": Trace.raw, "scores": Trace.scores, "weights": Trace.weights}.get(what)
        config = self.config
        places = [(part, layer) for part in config.parts for layer in range(config.layers_of(part))]
        place = next((place for place in places if config.attention_name(*place) == attention), None)
        if derive is None or place is None:
            return None
        part, layer = place
        return torch.stack([derive(self.of(part), layer, head) for head in range(config.n_heads)])

    def site(self, name: str, layer: int | None = None) -> str:
        """The full name of a site of this part: "resid_post" of a layer, "embed" or "final_norm" of its stack."""
        text("The name of a hook site", name)
        if layer is None:
            return self.config.stack_name(self.part) + name
        return f"{self.config.block_name(self.part, self._layer(layer))}.{name}"

    def q(self, layer: int) -> Tensor:
        """Queries as they enter the product: (H,T,D)."""
        return self._attention(layer, "q")

    def k(self, layer: int) -> Tensor:
        """Keys as they enter the product: (G,S,D)."""
        return self._attention(layer, "k")

    def v(self, layer: int) -> Tensor:
        """Values: (G,S,D)."""
        return self._attention(layer, "v")

    def mixed(self, layer: int) -> Tensor:
        """A·V of each head: (H,T,D)."""
        return self._attention(layer, "mixed")

    def mask(self, layer: int) -> Tensor:
        """Booleans (T,S), True where a query may attend."""
        return self._attention(layer, "mask").expand(1, 1, self.length, self.key_length)[0, 0]

    @torch.inference_mode()
    def raw(self, layer: int, head: int) -> Tensor:
        """QKᵀ of one head: (T,S)."""
        head, held = self._head(head), self._held(layer, "raw")
        if held is not None:
            return held[head]
        key = self.k(layer)[self.config.kv_head(head)]
        return raw_scores(self.q(layer)[head][None], key[None])[0]

    @torch.inference_mode()
    def scores(self, layer: int, head: int) -> Tensor:
        """QKᵀ/√D of one head, before the mask: (T,S)."""
        head, held = self._head(head), self._held(layer, "scores")
        if held is not None:
            return held[head]
        return self.raw(layer, head) * self.equation(layer).scale

    @torch.inference_mode()
    def weights(self, layer: int, head: int) -> Tensor:
        """softmax(softmax_input + M) of one head: (T,S); rows sum to 1, or are 0 where nothing may be read.

        With a sink they sum to less: the sink takes the rest. In an edited pass, what the edits made of them.
        """
        head, held = self._head(head), self._held(layer, "weights")
        if held is not None:
            return held[head]
        weights = attention_weights(self.softmax_input(layer, head), self.mask(layer), sinks=self.sink(layer, head))
        return changed(self.host.changes, f"{self._attention_name(layer)}.weights", weights, head)

    @torch.inference_mode()
    def weights_of(self, layer: int, queries: Sequence[int]) -> Tensor:
        """The rows of these queries in the weights of every head of a layer: (H,n,S).

        Where no weights are stored, only these rows are worked out.
        """
        rows = self._places("query", queries, self.length)
        written_out = self._held(layer, "weights")
        if written_out is not None:
            return written_out[:, rows]
        equation, (heads, length, keys) = self.equation(layer), (self.config.n_heads, self.length, self.key_length)
        scores = raw_scores(self.q(layer)[:, rows], self.k(layer)) * equation.scale
        held = {what: self._held(layer, what) for what in ("bias", "sinks")}
        bias = None if held["bias"] is None else held["bias"].expand(1, heads, length, keys)[0, :, rows]
        sinks = None if held["sinks"] is None else held["sinks"][:, None, None]
        weights = attention_weights(scores, self.mask(layer)[rows], bias, softcap=equation.softcap, sinks=sinks)
        for head in changed_heads(self.host.changes, f"{self._attention_name(layer)}.weights"):
            weights[head] = self.weights(layer, head)[rows]
        return weights

    @property
    def heads_at_once(self) -> list[range]:
        """The heads of a layer, as many together as should be worked out and held at once."""
        count = self.config.n_heads
        step = count if self.stored else max(1, DERIVED_AT_ONCE_BYTES // (4 * self.length * self.key_length))
        return [range(head, min(head + step, count)) for head in range(0, count, step)]

    @torch.inference_mode()
    def softmax_input(self, layer: int, head: int) -> Tensor:
        """What M is added to: the scores, capped and with the bias added where the model does so: (T,S)."""
        return softmax_input(self.scores(layer, head), self.bias(layer, head), self.equation(layer).softcap)

    def bias(self, layer: int, head: int) -> Tensor | None:
        """What is added to the scores of one head besides the mask: (T,S); None where nothing is."""
        head, name = self._head(head), f"{self._attention_name(layer)}.bias"
        if name not in self.tensors:
            return None
        whole = (1, self.config.n_heads, self.length, self.key_length)
        return self.tensors[name].expand(whole)[0, head]

    def sink(self, layer: int, head: int) -> Tensor | None:
        """The further score in each row's softmax, a single number; None where there is none."""
        head, name = self._head(head), f"{self._attention_name(layer)}.sinks"
        return self.tensors[name][head] if name in self.tensors else None

    def equation(self, layer: int) -> Equation:
        """What of the equation is the same for all heads of a layer."""
        return self.host.equation(self._attention_name(layer))

    @property
    def logits(self) -> Tensor:
        """Logits of the last position: (V,). Raises VizError for a model that predicts no tokens."""
        if "logits" not in self.tensors:
            raise VizError("This model has no unembedding. It gives a vector for each token and predicts no token.")
        return self["logits"]

    @torch.inference_mode()
    def logits_at(self, position: int) -> Tensor:
        """Logits of another position, unembedded from the held end of the stream: (V,)."""
        position = self._logits_position(position)
        return self.host.unembed(self[self.site("final_norm")][position])

    @torch.inference_mode()
    def score_terms(
        self, layer: int, head: int, query: int, key: int, than: int | str | None = None, *, tell: Tell = untold
    ) -> ScoreTerms:
        """The score of a cell as the sum of its terms: what each component of the query's stream makes with each one of
        the key's. than: another key, or "row" for the mean over the keys that the query may attend to. tell: told how
        many keys are read, of how many.

        Exact for this pass with its norms frozen; a sum, not a cause. Raises VizError for a cell that is not there, and
        for a model whose queries or keys cannot be taken apart.
        """
        scores = self.scores(layer, head)
        query, key = self._place("query", query, self.length), self._place("key", key, self.key_length)
        if than is not None and not (isinstance(than, str) and than == ROW):
            than = self._place("key", than, self.key_length)
        allowed, bias = self.mask(layer), self.bias(layer, head)
        of_type("tell", tell, Callable, "a function")
        return score_terms(self, layer, head, query, key, scores, allowed, bias, than, tell)

    @torch.inference_mode()
    def logit_terms(self, token: int, position: int = -1, than: int | str | None = None) -> LogitTerms:
        """A token's logit at a position as the sum of what each component of the final stream adds to it.

        than: another token, or "mean" for the mean over all tokens, whose logit is taken away. A linear reading with
        the final norm frozen, not a cause. Raises VizError for a token or position that is not there, and for a model
        whose logits cannot be taken apart.
        """
        position, token, than = self._compared(token, position, than)
        return logit_terms(self.of(self.config.self_part), token, position, self.logits_at(position), than)

    @torch.inference_mode()
    def logit_sources(self, token: int, position: int = -1, than: int | str | None = None) -> LogitSources:
        """What each head of this part adds to a token's logit at a position, split by the S tokens that it read: (A,S).

        Each row adds up to the head's term in `logit_terms`, whose arguments and errors these are; VizError, too, where
        what stands behind A·V is no linear map.
        """
        position, token, than = self._compared(token, position, than)
        return logit_sources(self, token, position, than)

    @torch.inference_mode()
    def lens(self, layer: int, position: int = -1) -> Tensor:
        """Logits (V,) that the stream behind a layer would give, through the model's own final norm and unembedding.

        This is the logit lens; those of the last layer are the output. Raises VizError as `logit_terms`.
        """
        position, layers = self._logits_position(position), self.config.layers_of(self.config.self_part)
        return lens(self, self._place("layer", layer, layers), [position])[0]

    @torch.inference_mode()
    def lens_of(self, tokens: Sequence[int], position: int = -1) -> TokenLens:
        """Rank, logit and probability of these tokens in the logit lens of every layer at a position: (L,n) each.

        Raises VizError as `lens`, and for tokens that are not there.
        """
        position = self._logits_position(position)
        return read_tokens(self, self._places("token", tokens, self.config.vocab_size), position)

    def _compared(self, token: int, position: int, than: int | str | None) -> tuple[int, int, int | str | None]:
        """Position, token, and what it is compared with, as they are counted from 0."""
        position = self._logits_position(position) % self.length
        token = self._place("token", token, self.config.vocab_size)
        if than is not None and not (isinstance(than, str) and than == MEAN):
            than = self._place("token", than, self.config.vocab_size)
        return position, token, than

    def _logits_position(self, position: int) -> int:
        if self.part == "encoder":
            raise VizError("The encoder makes no logits; only the decoder does. Choose the decoder.")
        if not self.config.has_unembedding:
            raise VizError("This model has no unembedding. It gives a vector for each token and predicts no token.")
        position = whole_number("The position", position)
        if not -self.length <= position < self.length:
            raise VizError(f"There is no position {position}: the prompt has {self.length} tokens.")
        return position

    def _place(self, what: str, value: int, count: int) -> int:
        value = whole_number(f"The {what}", value)
        if not 0 <= value < count:
            raise VizError(f"There is no {what} {value}: choose one from 0 to {count - 1}.")
        return value

    def _places(self, what: str, values: Sequence[int], count: int) -> list[int]:
        try:
            listed = [*islice(values, count + 1)]
        except Exception:  # what cannot be gone through
            raise VizError(f"Give a list of whole numbers, one for each {what}, such as [0, 1].") from None
        if not 0 < len(listed) <= count:
            raise VizError(f"Give between 1 and {count:,} numbers, one for each {what}.")
        return [self._place(what, value, count) for value in listed]

    def _held(self, layer: int, what: str) -> Tensor | None:
        return self.tensors.get(f"{self._attention_name(layer)}.{what}")

    def _attention(self, layer: int, what: str) -> Tensor:
        return self[f"{self._attention_name(layer)}.{what}"]

    def _attention_name(self, layer: int) -> str:
        return self.config.attention_name(self.part, self._layer(layer))

    def _layer(self, layer: int) -> int:
        layer = whole_number("The layer", layer)
        if not 0 <= layer < self.n_layers:
            raise VizError(f"There is no layer {layer}: the model has layers 0 to {self.n_layers - 1}.")
        return layer

    def _head(self, head: int) -> int:
        head = whole_number("The head", head)
        if not 0 <= head < self.config.n_heads:
            raise VizError(f"There is no head {head}: the model has heads 0 to {self.config.n_heads - 1}.")
        return head
