"""The encoder-decoder of 2017: a source is read by one stack, and what the other writes reads its end."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from viz_model.transformer.cache import KVCache
from viz_model.transformer.changes import under_changes
from viz_model.transformer.config import TransformerConfig
from viz_model.transformer.host import Masks, refuse_source, refuse_strange
from viz_model.transformer.stack import Stack
from viz_model.transformer.transformer import SkeletonHost, refuse_strange_config


class EncoderDecoder(SkeletonHost, nn.Module):
    """Vaswani et al. 2017, "Attention Is All You Need", figure 1; one table of tokens for all (§3.4)."""

    def __init__(self, config: TransformerConfig):
        refuse_strange_config(config)
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocab_size, config.d_model)
        self.encoder, self.decoder = Stack(config, "encoder"), Stack(config, "decoder")
        if not config.tied_unembedding:
            self.unembedding = nn.Linear(config.d_model, config.vocab_size, bias=False)

    @property
    def source_modules(self) -> frozenset[str]:
        names = (name for name, _ in self.named_modules())
        return frozenset(
            name for name in names if name.startswith("encoder.") or name.endswith((".cross.key", ".cross.value"))
        )

    @under_changes
    def hidden(
        self,
        ids: Tensor,
        *,
        source: Tensor | None = None,
        mask: Masks = None,
        padding: Tensor | None = None,
        source_padding: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """What the decoder reads (B,T), of a source (B,S) -> final hidden state (B,T,C).

        mask: booleans, True where a query may attend, for each of "encoder" (S,S), "decoder" (T,T) and "cross" (T,S),
        broadcastable with B and H before them; one that is left out is its own, and one alone is the decoder's.
        padding (B,T), source_padding (B,S): True at padding tokens, as of a Transformer of one stack.
        cache: what was read before. The first pass with it reads the source; those after it need none, for
            it holds the keys and values of it.
        Raises VizError where there is no source, or room for none, and for what does not fit the model.
        """
        refuse_strange(
            self.config,
            self.tokens.weight,
            ids,
            source=source,
            mask=mask,
            padding=padding,
            source_padding=source_padding,
            cache=cache,
        )
        chosen = mask if isinstance(mask, Mapping) else {"decoder": mask}
        memory = None
        if cache is None or not cache.holds_source:
            refuse_source(source, cache)
            memory = self.encoder(self.tokens(source), chosen.get("encoder"), source_padding)
        cross = chosen.get("cross")
        if cross is None:
            read = cache.source_length if memory is None else memory.shape[1]
            cross = torch.ones(ids.shape[1], read, dtype=torch.bool, device=ids.device)
        if source_padding is not None:
            cross = cross & ~source_padding[:, None, None, :]
        return self.decoder(self.tokens(ids), chosen.get("decoder"), padding, cache, memory, cross)

    def encode(self, source: Tensor, mask: Tensor | None = None, padding: Tensor | None = None) -> Tensor:
        """The source (B,S) -> encoder output (B,S,C). Raises VizError as `hidden`."""
        own = {"encoder": mask}
        refuse_strange(self.config, self.tokens.weight, source, source=source, mask=own, source_padding=padding)
        return self.encoder(self.tokens(source), mask, padding)
