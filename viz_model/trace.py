"""Trace: what one forward pass left behind, and what can be derived from it."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from viz_model.attention import attention_weights, mix, raw_scores
from viz_model.errors import VizError
from viz_model.transformer.config import TransformerConfig


@dataclass(frozen=True, eq=False)
class Trace:
    """The tensors of one pass over one prompt, without the batch dimension.

    `stored` says whether raw scores, scores, weights and mixed values of every head were kept as they were
    computed. If not (long prompts, see `Model.trace`), they are worked out from q, k, v and mask, one head at a
    time, by the very functions that the pass uses. Tensors are read-only: made in torch's inference mode, they
    refuse to be written to.

    ids, tokens: T of each; mask_name: which mask was used; own_mask: whether it is the model's own.
    """

    config: TransformerConfig
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    token_bytes: tuple[bytes, ...]
    mask_name: str
    tensors: dict[str, Tensor]
    unembed: Callable[[Tensor], Tensor]

    @property
    def length(self) -> int:
        """T, the number of tokens."""
        return len(self.ids)

    @property
    def stored(self) -> bool:
        return "blocks.0.attn.weights" in self.tensors

    @property
    def own_mask(self) -> bool:
        return self.mask_name == self.config.mask

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors that are held; what stands under several sites (the mask) counts once."""
        storages = (tensor.untyped_storage() for tensor in self.tensors.values())
        return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())

    def __getitem__(self, site: str) -> Tensor:
        """The captured tensor of a hook site, such as "blocks.2.resid_mid"; a VizError if not held."""
        try:
            return self.tensors[site]
        except KeyError as error:
            near = ", ".join(difflib.get_close_matches(site, self.tensors, n=4, cutoff=0.0))
            raise VizError(f"This trace does not hold '{site}'. Near names that it holds: {near}.") from error

    def q(self, layer: int) -> Tensor:
        """Queries as they enter the product: (H,T,D)."""
        return self._attention(layer, "q")

    def k(self, layer: int) -> Tensor:
        """Keys as they enter the product: (G,S,D)."""
        return self._attention(layer, "k")

    def v(self, layer: int) -> Tensor:
        """Values: (G,S,D)."""
        return self._attention(layer, "v")

    @torch.inference_mode()
    def mixed(self, layer: int) -> Tensor:
        """A·V of each head: (H,T,D)."""
        if self.stored:
            return self._attention(layer, "mixed")
        values = self.v(layer)
        groups = [self.config.kv_head(head) for head in range(self.config.n_heads)]
        return torch.cat([mix(self.weights(layer, head)[None], values[g][None]) for head, g in enumerate(groups)])

    def mask(self, layer: int) -> Tensor:
        """Booleans (T,S), True where a query may attend."""
        return self._attention(layer, "mask").expand(1, 1, self.length, self.length)[0, 0]

    @torch.inference_mode()
    def raw(self, layer: int, head: int) -> Tensor:
        """QKᵀ of one head: (T,S)."""
        if self.stored:
            return self._attention(layer, "raw")[self._head(head)]
        key = self.k(layer)[self.config.kv_head(self._head(head))]
        return raw_scores(self.q(layer)[head][None], key[None])[0]

    @torch.inference_mode()
    def scores(self, layer: int, head: int) -> Tensor:
        """QKᵀ/√D of one head, before the mask: (T,S)."""
        if self.stored:
            return self._attention(layer, "scores")[self._head(head)]
        return self.raw(layer, head) * self.scale

    @torch.inference_mode()
    def weights(self, layer: int, head: int) -> Tensor:
        """softmax(scores + M) of one head: (T,S); rows sum to 1, or are 0 where nothing may be read."""
        if self.stored:
            return self._attention(layer, "weights")[self._head(head)]
        return attention_weights(self.scores(layer, head), self.mask(layer))

    @property
    def scale(self) -> float:
        """1/√D, what QKᵀ is multiplied with."""
        return self.config.d_head**-0.5

    @property
    def logits(self) -> Tensor:
        """Logits of the last position: (V,)."""
        return self.tensors["logits"]

    @torch.inference_mode()
    def logits_at(self, position: int) -> Tensor:
        """Logits of another position, unembedded from the held end of the stream: (V,)."""
        if not -self.length <= position < self.length:
            raise VizError(f"There is no position {position}: the prompt has {self.length} tokens.")
        return self.unembed(self["final_norm"][position])

    def _attention(self, layer: int, what: str) -> Tensor:
        if not 0 <= layer < self.config.n_layers:
            last = self.config.n_layers - 1
            raise VizError(f"There is no layer {layer}: the model has layers 0 to {last}.")
        return self[f"blocks.{layer}.attn.{what}"]

    def _head(self, head: int) -> int:
        if not 0 <= head < self.config.n_heads:
            raise VizError(f"There is no head {head}: the model has heads 0 to {self.config.n_heads - 1}.")
        return head
