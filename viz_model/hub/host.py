"""HubTransformer: a model of the transformers library with the face of our own Transformer."""

import inspect
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import replace

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, BaseModelOutputWithPastAndCrossAttentions

from viz_model.arguments import dense, of_type, said, text
from viz_model.errors import VizError
from viz_model.hub.attention import with_masks
from viz_model.hub.facts import HubConfig
from viz_model.hub.find_sites import of_batch
from viz_model.hub.library_cache import as_library_cache
from viz_model.hub.recording import has_bias
from viz_model.transformer import masks
from viz_model.transformer.attention import Equation
from viz_model.transformer.cache import KVCache
from viz_model.transformer.changes import under_changes
from viz_model.transformer.feed_forward import FeedForwardEquation
from viz_model.transformer.hooks import site
from viz_model.transformer.host import Masks, ToLogits, refuse_cache, refuse_no_vectors, refuse_source, refuse_strange
from viz_model.transformer.linear_maps import BlockMaps, Maps, StackMaps
from viz_model.transformer.sharing import sharing_copy
from viz_model.transformer.skipping import skippable

# The end of a stream that the code behind a stack shall go on from, instead of a pass through the stack.
_given_end: ContextVar[Tensor | None] = ContextVar("viz_model.hub.host", default=None)


class _GivenEnd(BaseModelOutputWithPastAndCrossAttentions):
    """What a stack gives back, with nothing in it but the end of the stream."""

    def __getattr__(self, name: str):
        if name.startswith("_"):
            raise AttributeError(name)


class HubTransformer(ToLogits):
    """Runs a model of the library; its attention is ours, and its hook sites are named as ours.

    Shared by all threads: what changes with a pass lives in ContextVars.
    """

    def __init__(self, model: PreTrainedModel, is_pair: bool):
        self.model, self.is_pair = model, is_pair
        self.stack = model.get_decoder() if is_pair else _stack_of(model)
        self.encoder = model.get_encoder() if is_pair else None
        # These are known after the first pass, see `prepare`.
        self.config: HubConfig | None = None
        self.equations: dict[str, Equation] = {}
        self.block_maps: dict[str, BlockMaps] = {}
        self.entrances: dict[str, StackMaps] = {}  # by part, all but what stands behind the stack
        self.final_maps: dict[str, Maps | None] = {}
        self.unembedding_maps: Maps = ()
        self.halves: dict[str, FeedForwardEquation] = {}
        self.value_width = self.end_width = 0  # numbers of a value in a head; of the final hidden state
        self.source_modules: frozenset[str] = frozenset()
        self.angles_switch_at: int | None = None
        self.skips_blocks = False
        self.separator: int | None = None  # the id behind which a second text begins, in a segment of its own (BERT)
        self._takes_positions = "position_ids" in inspect.signature(self.stack.forward).parameters
        for stack in {self.stack, model.get_decoder()} - {model}:  # a head may ask the inner one of the two (OPT)
            if isinstance(stack, PreTrainedModel):
                _give_what_is_given(stack)
        for block in model.modules():  # of a copy: those that had a name before
            if hasattr(block, "viz_block"):
                let_be_skipped(block, block.viz_block)

    @property
    def network(self) -> nn.Module:
        return self.model

    @property
    def head_modules(self) -> frozenset[str]:
        """What the model's own code has behind its stacks; a table of tokens that lies there is looked up only."""
        stacks = {self.stack, self.encoder} - {None}
        inside = {id(module) for stack in stacks for module in stack.modules()}
        return frozenset(
            name
            for name, module in self.model.named_modules()
            if id(module) not in inside and not isinstance(module, nn.Embedding)
        )

    def equation(self, attention: str) -> Equation:
        """What of the equation is the same for all heads of an attention, by the name of its hook sites.

        Raises VizError for a name that is none.
        """
        if text("The name of an attention", attention) not in self.equations:
            raise VizError(f"There is no attention {said(attention)}: the first is {min(self.equations)}.")
        return self.equations[attention]

    def feed_forward(self, block: str) -> FeedForwardEquation:
        """That of a block's feed-forward half, by what its hook sites begin with."""
        if text("The name of a block", block) not in self.halves:
            raise VizError(f"There is no block {said(block)} with a feed-forward half: {', '.join(self.halves)}."[:400])
        return self.halves[block]

    def maps(self, block: str) -> BlockMaps:
        """What a block does to its stream, map by map, by what its hook sites begin with."""
        if text("The name of a block", block) not in self.block_maps:
            raise VizError(f"There is no block {said(block)}: the first is {min(self.block_maps)}.")
        return self.block_maps[block]

    def stack_maps(self, part: str) -> StackMaps:
        """What stands before and behind the blocks of the stack that the queries of a part are in."""
        self.config.refuse_no_part(part)
        stack = "decoder" if part == "cross" else part
        return replace(self.entrances[stack], final=self.final_maps[stack], unembedding=self.unembedding_maps)

    def embedding_rows(self) -> Tensor:
        """The table of tokens, a row each: (V,·)."""
        return self.model.get_input_embeddings().weight

    def unembedding_rows(self) -> tuple[Tensor, Tensor | None]:
        """What each token's logit is the product with (V,C), and what is added (V,), before a soft cap."""
        layer, factor = self.model.get_output_embeddings(), self.config.unembedding_factor
        if factor is None:
            raise VizError(
                f"This model ({self.config.family}) computes its logits in its own way, not as products "
                "with one matrix, so they cannot be taken apart. Choose another model, such as tiny-gpt."
            )
        rows = layer.weight if factor == 1 else layer.weight * factor
        return rows, layer.bias if has_bias(layer) else None

    __call__ = ToLogits.forward

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
        """Token ids (B,T), of an encoder-decoder also of a source (B,S) -> the end of the stream (B,T,C).

        mask: booleans broadcastable to (B,H,T,S), True where a query may attend, in place of the model's own masks
        in all layers; None keeps these, windows and all. Of an encoder-decoder it is the decoder's on itself, or a
        mapping gives one for each part.
        padding (B,T), source_padding (B,S): True at padding tokens, which nobody attends to. Positions count the
        real tokens wherever the model takes them from outside.
        cache: what was read before.
        Raises VizError for a model that cannot be cached, where the cache is full, and for what does not fit the model.
        """
        if cache is not None and self.value_width != self.config.d_head:
            raise VizError(
                f"The keys and values of this model differ in width ({self.config.d_head} and {self.value_width} "
                "numbers a head), and the cache here cannot hold them. Generate without a cache."
            )
        weight = next(self.model.parameters())
        refuse_strange(
            self.config,
            weight,
            ids,
            source=source,
            mask=mask,
            padding=padding,
            source_padding=source_padding,
            cache=cache,
        )
        chosen = mask if isinstance(mask, Mapping) else {"decoder" if self.is_pair else "self": mask}
        ids, options = self._inputs(ids, padding)
        if cache is not None:
            self._refuse_cache(cache, ids, padding)
            options |= {"cache": as_library_cache(cache, self.config.n_layers, weight), "use_cache": True}
        else:
            options["use_cache"] = False
        with with_masks(self._masks(chosen, padding, source_padding)), of_batch(len(ids)):
            if self.is_pair:
                options |= self._memory(source, source_padding, cache)
            hidden = self.stack(input_ids=ids, **options)[0]
        if cache is not None:
            cache.length += ids.shape[1]
        return site("decoder.final_norm" if self.is_pair else "final_norm", hidden)

    def unembed(self, hidden: Tensor) -> Tensor:
        """(…,C) -> logits (…,V), by the model's own code behind its stack. Raises VizError for no such tensor."""
        if self.stack is self.model:
            raise VizError(
                "This model has no unembedding. It gives a vector for each token and predicts no token. Choose a "
                "model that predicts tokens, such as tiny-gpt."
            )
        refuse_no_vectors(hidden, self.end_width, next(self.model.parameters()))
        flat = hidden.reshape(1, -1, hidden.shape[-1])
        nothing = torch.zeros(flat.shape[:2], dtype=torch.long, device=hidden.device)  # these ids are read by nobody
        options = {}
        if self.is_pair:
            options = {"decoder_input_ids": nothing, "encoder_outputs": BaseModelOutput(last_hidden_state=flat)}
        token = _given_end.set(flat)
        try:
            logits = self.model(input_ids=nothing, **options).logits
        finally:
            _given_end.reset(token)
        return logits.reshape(*hidden.shape[:-1], -1)

    def segments(self, ids: Tensor) -> Tensor:
        """The segment of each token (…,T), 0 or 1: behind the first separator a second text begins.

        As the library encodes a pair of texts (Devlin et al. 2019, figure 2). All 0 for a model without segments.
        """
        dense("The ids", of_type("The ids", ids, Tensor, "a tensor of whole numbers"))
        if self.separator is None:
            return torch.zeros_like(ids)
        is_separator = (ids == self.separator).long()
        return (is_separator.cumsum(-1) > is_separator).long()

    def sharing_copy(self) -> "HubTransformer":
        """The same with modules of its own, which share every parameter and buffer with these."""
        model = sharing_copy(self.model)
        for module in model.modules():
            module.__dict__.pop("forward", None)  # these belong to the modules of the other one
        twin = HubTransformer(model, self.is_pair)
        own = vars(twin)
        own.update({name: value for name, value in vars(self).items() if name not in ("model", "stack", "encoder")})
        return twin

    def _inputs(self, ids: Tensor, padding: Tensor | None) -> tuple[Tensor, dict]:
        segments = {} if self.separator is None else {"token_type_ids": self.segments(ids)}
        if padding is None:
            return ids, segments
        pad = self.model.config.get_text_config().pad_token_id
        # A model that counts positions by its own padding token (RoBERTa) must find it there.
        ids = ids if pad is None else ids.masked_fill(padding, pad)
        options = segments | {"attention_mask": (~padding).long()}
        if self._takes_positions and not self._counts_positions():
            options["position_ids"] = masks.positions_of(~padding)
        return ids, options

    def _counts_positions(self) -> bool:
        """Whether the model numbers positions by its padding token or its attention mask, from another start."""
        tables = (module for name, module in self.stack.named_modules() if "position" in name)
        return any(isinstance(table, nn.Embedding) and _starts_later(table) for table in tables)

    def _masks(self, chosen: Mapping, padding: Tensor | None, source_padding: Tensor | None) -> dict[str, Tensor]:
        forbidden = {"self": padding, "decoder": padding, "encoder": source_padding, "cross": source_padding}
        given = {}
        for part, mask in chosen.items():
            if mask is not None:
                pad = forbidden[part]
                given[part] = mask if pad is None else masks.with_padding(mask, ~pad)
        return given

    def _memory(self, source: Tensor | None, padding: Tensor | None, cache: KVCache | None) -> dict:
        """What the decoder reads of the source: the end of the encoder's stream, and which of it is padding."""
        real = None if padding is None else (~padding).long()
        if cache is not None and cache.holds_source:
            # Keys and values of the source are in the cache; of this only the length is asked.
            sizes = cache.view().keys.shape[1], cache.source_length, self.config.d_model
            memory = torch.zeros(sizes).to(next(self.model.parameters()))
            return {"encoder_hidden_states": memory, "encoder_attention_mask": real}
        refuse_source(source, cache)
        memory = site("encoder.final_norm", self.encoder(input_ids=source, attention_mask=real)[0])
        return {"encoder_hidden_states": memory, "encoder_attention_mask": real}

    def _refuse_cache(self, cache: KVCache, ids: Tensor, padding: Tensor | None) -> None:
        refuse_cache(self.config, cache, ids.shape[-1])
        if padding is not None:
            raise VizError("A pass with padding cannot fill a cache. Run the prompts one by one.")


def _stack_of(model: PreTrainedModel) -> PreTrainedModel:
    """What ends with the final hidden state; the model itself where nothing comes behind it.

    A model that was taken out of one for several kinds of input (Llama 4) does not find its stack by the name that it
    has there.
    """
    if model.base_model is not model or model.get_output_embeddings() is None:
        return model.base_model
    return next((child for child in model.children() if isinstance(child, PreTrainedModel)), model)


def _give_what_is_given(stack: nn.Module) -> None:
    """Once, when the model is loaded: let a stack give back `_given_end` where there is one."""
    run = stack.forward

    def forward(*arguments, **options):
        end = _given_end.get()
        return run(*arguments, **options) if end is None else _GivenEnd(last_hidden_state=end)

    stack.forward = forward


def let_be_skipped(block: nn.Module, name: str) -> None:
    """Once, when the model is loaded: let a block be skipped by the name that its hook sites begin with."""
    block.viz_block, block.forward = name, skippable(name, block.forward)


def _starts_later(table: nn.Embedding) -> bool:
    """RoBERTa's and OPT's tables of positions begin with rows that stand for no position."""
    return table.padding_idx is not None or bool(getattr(table, "offset", 0))
