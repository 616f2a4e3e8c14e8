"""The first pass of a model: which attention is which, what each computes, where its other tensors are, and whether
it gives the same numbers as the library's own attention."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from viz_model.errors import CheckpointError, VizError
from viz_model.hub import find_maps, find_projections
from viz_model.hub.attention import NAME, AttentionCall, AttentionPlace, give_place, place_of, telling
from viz_model.hub.facts import HubConfig
from viz_model.hub.find_experts import find_experts
from viz_model.hub.find_sites import BlockSites, find_sites, install
from viz_model.hub.host import HubTransformer, let_be_skipped
from viz_model.hub.own_attention import choose_attention, own_attention
from viz_model.hub.recording import Event, first_event, has_bias, recording
from viz_model.model.overflow import refuse_overflow
from viz_model.transformer.feed_forward import ACTIVATIONS, FeedForwardEquation
from viz_model.transformer.hooks import capture, edit
from viz_model.transformer.linear_maps import Activation, Maps, Norm, Product, Scaled, StackMaps
from viz_model.transformer.skipping import skipping

READ, FROM_SOURCE = 3, 4  # T and S of the first pass; unequal, so that cross-attention shows itself
TOLERANCE = 1e-3  # of the largest logit: far above rounding, far below what another equation makes


def prepare(host: HubTransformer, facts: HubConfig) -> None:
    """Run the first pass and give the host its equations, hook sites and config.

    Raises CheckpointError, which says what was found, for a model whose attention is not all ours to see.
    """
    family, inputs = facts.family, _inputs(host, facts)
    host.config = facts  # until the pass has told the others
    calls: list[tuple[int, AttentionCall]] = []
    with torch.inference_mode(), recording(host.model) as events:

        def met(call: AttentionCall) -> None:
            calls.append((len(events), call))

        try:
            with telling(met), capture(optional=("*final_norm",)) as ends:
                end = host.hidden(**inputs)
        except VizError as error:
            raise CheckpointError(f"{family} cannot be shown: {error}") from error
        except Exception as error:  # the library's own, of any kind
            raise CheckpointError(
                f"{family} cannot be shown: it did not run with our attention ({type(error).__name__}: {error})."
            ) from error
    refuse_overflow(family, {"final_norm": end})
    host.end_width = end.shape[-1]
    modules = {id(module): name for name, module in host.model.named_modules()}
    blocks = _place(host, facts, [call for _, call in calls], modules)
    first = calls[0][1]
    facts = replace(
        facts,
        layout=_layout(host, first),
        n_heads=first.query.shape[1],
        n_kv_heads=first.key.shape[1],
        d_head=first.query.shape[-1],
        d_model=_stream_width(blocks, events),
        has_unembedding=host.stack is not host.model,
        shares_layers=any(_shares_parameters(found) for found in blocks.values()),
        **{("n_encoder_layers" if part == "encoder" else "n_layers"): len(found) for part, found in blocks.items()},
    )
    host.angles_switch_at = find_projections.angles_switch_at(host)
    thetas = find_projections.possible_thetas(host, facts.d_head)
    found = [_install_block(host, facts, part, layer, block, events, calls, thetas)
             for part in blocks if part != "cross" for layer, block in enumerate(blocks[part])]  # fmt: skip
    host.config, host.value_width = facts, first.value.shape[-1]
    host.source_modules = _source_modules(host, events)
    host.final_maps = _final_maps(facts, blocks, found, events, ends)
    host.config = replace(
        facts,
        **_facts_of_pass(host, inputs, events, calls, found),
        **_facts_of_head(host, end),
        end_matrix=any(event.is_product and torch.equal(event.tensor, end) for event in events),
        checked=_difference_to_own(host, inputs, end),
    )
    host.skips_blocks = _skips_blocks(host, inputs, found, end)


def _inputs(host: HubTransformer, facts: HubConfig) -> dict[str, Tensor]:
    """Ids that are no control tokens (some models count these differently)."""
    config = host.model.config.get_text_config()
    control = {value for name, value in vars(config).items() if name.endswith("_token_id") and isinstance(value, int)}
    usable = [token for token in range(min(facts.vocab_size, 64)) if token not in control] or [0]
    ids = [usable[(7 * place + 1) % len(usable)] for place in range(FROM_SOURCE)]
    given = {"ids": torch.tensor([ids[:READ]])}
    return given | {"source": torch.tensor([ids])} if host.is_pair else given


def _place(
    host: HubTransformer, facts: HubConfig, calls: list[AttentionCall], modules: dict[int, str]
) -> dict[str, list]:
    """Give every attention its place; gives the blocks of each part, by layer."""
    family = facts.family
    if not calls:
        raise CheckpointError(
            f"{family} cannot be shown: it computes attention in its own code and not through the attention "
            "interface of the transformers library, so its attention cannot be captured."
        )
    blocks: dict[str, list[nn.Module]] = {}
    expected: dict[str, int] = {}
    for call in calls:
        name = modules[id(call.module)]
        part, (layers, layer) = _part(host, call), _block_of(host.model, name, family)
        met = blocks.setdefault(part, [])
        if place_of(call.module) or layer != len(met):
            raise CheckpointError(
                f"{family} cannot be shown: its attention {name} was called where layer {len(met)} of {len(layers)} "
                "was expected. Each layer must have an attention of its own, which is called once."
            )
        if call.query.shape[1:2] + call.query.shape[3:] + call.key.shape[1:2] != (
            calls[0].query.shape[1:2] + calls[0].query.shape[3:] + calls[0].key.shape[1:2]
        ):
            raise CheckpointError(f"{family} cannot be shown: its layers differ in the number or width of their heads.")
        if call.module.training:
            raise CheckpointError(f"{family} cannot be shown: it stayed in training mode.")
        met.append(layers[layer])
        expected[part] = len(layers)
        ours = facts.attention_name(part, layer)
        has_bias = call.bias is not None and bool(call.bias.any())  # T5 adds zeros in cross-attention
        give_place(call.module, AttentionPlace(part, ours, has_bias))
        host.equations[ours] = call.equation
    for part, met in blocks.items():
        if len(met) != expected[part]:
            raise CheckpointError(
                f"{family} cannot be shown: only {len(met)} of its {expected[part]} layers have an attention that "
                "can be captured."
            )
    return blocks


def _part(host: HubTransformer, call: AttentionCall) -> str:
    """The module's place in the model says it; cross-attention reads as many keys as the source has tokens."""
    if not host.is_pair:
        return "self"
    if any(call.module is module for module in host.encoder.modules()):
        return "encoder"
    return "cross" if call.key.shape[-2] == FROM_SOURCE else "decoder"


def _block_of(model: nn.Module, name: str, family: str) -> tuple[nn.ModuleList, int]:
    """The list of layers that a module is in, and at which place."""
    path = name.split(".")
    for depth, step in enumerate(path):
        if isinstance(layers := model.get_submodule(".".join(path[:depth])), nn.ModuleList):
            return layers, int(step)
    raise CheckpointError(f"{family} cannot be shown: its attention {name} is in no list of layers.")


def _stream_width(blocks: dict[str, list], events: list[Event]) -> int:
    """C: what the first block reads; OPT's rows of tokens and its final hidden state may be narrower."""
    first = next(iter(blocks.values()))[0]
    return next(event for event in events if event.module is first).tensor.shape[-1]


def _shares_parameters(blocks: list[nn.Module]) -> bool:
    """Whether two of them have the same parameters."""
    owned = [frozenset(map(id, block.parameters())) for block in blocks]
    return len(set(owned)) < len(owned)


def _source_modules(host: HubTransformer, events: list[Event]) -> frozenset[str]:
    """The encoder, and what else met as many tokens as the source has: keys and values of cross-attention."""
    if not host.is_pair:
        return frozenset()
    encoder = {id(module) for module in host.encoder.modules()}
    inside = {name for name, module in host.model.named_modules() if id(module) in encoder}
    return frozenset(inside | {event.name for event in events if event.is_leaf and event.tokens == FROM_SOURCE})


def _layout(host: HubTransformer, first: AttentionCall) -> str:
    if host.is_pair:
        return "encoder-decoder"
    sees_later = first.mask.expand(1, 1, READ, READ)[0, 0].triu(1).any()
    return "encoder-only" if sees_later else "decoder-only"


def _install_block(
    host: HubTransformer, facts: HubConfig, part: str, layer: int, block: nn.Module, events, calls, thetas
) -> BlockSites:
    """Find and install the sites of one block."""
    name = facts.block_name(part, layer)
    let_be_skipped(block, name)
    start, end = _span(events, block)
    inside = [(at - start, call) for at, call in calls if start <= at <= end]
    own = events[start : end + 1]
    names = ("attn", "cross")[: len(inside)]
    found = find_sites(own, [at for at, _ in inside], names)
    for local, event in found.sites.items():
        install(f"{name}.{local}", event, block)
    if layer == 0:
        install(f"{facts.stack_name(part)}embed", own[0], block)
    norms, made = {"attn": ("norm1", "resid_pre"), "cross": ("norm_cross", "resid_self")}, {}
    for (at, call), kind in zip(inside, names, strict=True):
        read = next((found.sites[site].tensor for site in norms[kind] if site in found.sites), None)
        if found.norm_place == "post":
            read = found.sites[norms[kind][1]].tensor if norms[kind][1] in found.sites else None
        attention = f"{name}.{kind}"
        equation, made[kind] = find_projections.install(
            attention, own[:at], call, read, thetas, host.angles_switch_at, clips=find_projections.clips(host)
        )
        out = find_projections.made_of(own, found.sites.get(f"{kind}.out"), call.mixed)
        host.equations[attention] = replace(equation, out=out)
    host.block_maps[name] = find_maps.of_block(found, made)
    host.halves[name] = _feed_forward(host, facts.activation, found, f"{name}.ffn.shares")
    return found


def _feed_forward(host: HubTransformer, said: str | None, found: BlockSites, name: str) -> FeedForwardEquation:
    """What makes of the products of a half its hidden numbers; or its experts. said: the activation of the config,
    which may mean another one (T5's "gelu" is the one with tanh)."""
    sites = found.sites
    if "ffn.out" in sites and "ffn.hidden" not in sites:
        config = host.model.config.get_text_config().to_dict()
        try:
            experts = find_experts(sites["ffn.out"].module, found.read, config, name)
        except Exception:  # experts of the library's may keep their weights in any way; these are not known here
            experts = None
        return FeedForwardEquation(said, True if experts else None, experts)
    if "ffn.hidden" in sites and len(found.products) in (1, 2):
        hidden, gated = sites["ffn.hidden"].tensor, len(found.products) == 2
        for first, other in ((0, -1), (-1, 0)):
            for activation in sorted(ACTIVATIONS, key=lambda one: one != said):
                made = ACTIVATIONS[activation](found.products[first])
                made = made * found.products[other] if gated else made
                if torch.allclose(made, hidden, atol=1e-5, rtol=1e-5):
                    return FeedForwardEquation(activation, gated)
    return FeedForwardEquation(None, None)


def _final_maps(
    facts: HubConfig, blocks, found: list[BlockSites], events: list[Event], ends: dict[str, Tensor]
) -> dict:
    """What stands behind the last block of each stack, by its part."""
    maps, last = {}, -1
    for part in (part for part in blocks if part != "cross"):
        last += len(blocks[part])
        stream, end = found[last].sites["resid_post"].tensor, ends[f"{facts.stack_name(part)}final_norm"]
        maps[part] = find_maps.final(events, stream, end)
    return maps


def _span(events: list[Event], block: nn.Module) -> tuple[int, int]:
    own = [place for place, event in enumerate(events) if event.module is block]
    return own[0], own[-1]


def _facts_of_pass(host: HubTransformer, inputs, events: list[Event], calls, found: list[BlockSites]) -> dict:
    """What only the pass tells: kinds of norm and position, widths, biases."""
    first = calls[0][0]  # so many events were over when the first attention was called
    before = [event for event in events[:first] if event.kind == "out"]
    positions = [event for event in before if _is_position_table(event)]
    facts = {
        "norm_place": found[-1].norm_place,
        **_facts_of_block(host, found[-1]),
        **find_projections.facts(host),
        **_facts_of_positions(host.config, positions, calls[0][1].bias),
        **_facts_of_embeddings(host, inputs, events, calls, found),
    }
    if facts["position"] == "none" and facts["embedding_factor"] is None:
        facts["position"] = None  # something else than tokens may be added: CTRL's sinusoids are in no module
    return facts


def _facts_of_embeddings(host: HubTransformer, inputs, events: list[Event], calls, found: list[BlockSites]) -> dict:
    """What both stacks begin with; not known where they differ (the small Blenderbot)."""

    def facts(part: str, ids: Tensor, events: list[Event], upto: int, block: BlockSites) -> dict:
        before = [event for event in events[:upto] if event.kind == "out"]
        positions = [event for event in before if _is_position_table(event)]
        return _facts_of_embedding(host, part, ids, events, before, positions, block.sites["resid_pre"].tensor)

    if not host.is_pair:
        return facts("self", inputs["ids"], events, calls[0][0], found[0])
    layers = host.config.n_encoder_layers
    end = events.index(found[layers - 1].sites["resid_post"])
    of_decoder = facts("decoder", inputs["ids"], events[end:], calls[layers][0] - end, found[layers])
    of_encoder = facts("encoder", inputs["source"], events, calls[0][0], found[0])
    factors = [one.pop("embedding_factor") for one in (of_encoder, of_decoder)]
    known = of_encoder == of_decoder and None not in factors and abs(factors[0] - factors[1]) < 1e-3
    return of_encoder | {"embedding_factor": factors[0] if known else None}


def _facts_of_block(host: HubTransformer, found: BlockSites) -> dict:
    """The kind of norm, F, the activation, whether there are biases; what has no site is left as the config says."""
    facts, sites = {}, found.sites
    if "norm1" in sites:
        facts["norm"] = _kind_of_norm(sites["norm1"])
    if "ffn.hidden" in sites:
        facts["d_ff"] = sites["ffn.hidden"].tensor.shape[-1]
    half = list(host.halves.values())[-1]
    facts["activation"] = None if half.gated is None or half.experts else half.activation
    if half.gated and facts["activation"]:
        facts["activation"] = "swiglu" if half.activation == "silu" else f"gated {half.activation}"
    if "attn.out" in sites:
        facts["bias"] = has_bias(sites["attn.out"].module)
    return facts


def _facts_of_positions(config: HubConfig, tables: list[Event], bias: Tensor | None) -> dict:
    """Where positions enter, if not by a rotation: a table before the first attention, or a bias of the scores.

    Of a model with both (MPNet) it is the table, which ends; a layer's equation and its bias say the other.
    """
    if not tables and bias is not None:
        kind = "relative" if find_projections.slopes(bias) is None else "alibi"
        return {"position": kind, "rotary_base": None, "rotary_pairs": None}
    if not tables:
        return {}
    table = tables[0].module
    if not isinstance(table, nn.Embedding):
        return {"position": "sinusoidal"}
    unused = 0 if table.padding_idx is None else table.padding_idx + 1  # RoBERTa begins behind its padding token
    return {
        "position": "sinusoidal" if "Sinusoidal" in type(table).__name__ else "learned",
        "context_length": min(config.context_length, table.num_embeddings - unused),
    }


def _facts_of_embedding(
    host: HubTransformer,
    part: str,
    ids: Tensor,
    events: list[Event],
    before: list[Event],
    positions: list[Event],
    entering: Tensor,
) -> dict:
    """What the stream begins with; and the sites of what is added up there, where each can be told apart.

    before: what modules gave before the first attention; positions: of these, rows of positions; entering: the stream
    that the first block reads.
    """
    tokens, end = host.model.get_input_embeddings(), host.model.get_output_embeddings()
    matrix = first_event(before, lambda event: event.is_product and torch.equal(event.tensor, entering))
    if matrix is not None:  # of the whole sum (ELECTRA)
        entering = _read_by(events, matrix)
    norm = next((event for event in before if event.is_norm and torch.equal(event.tensor, entering)), None)
    if norm is not None:
        entering = _read_by(events, norm)
    maps = () if norm is None else (Norm(norm.module),)
    maps += () if matrix is None else (Product(matrix.module),)
    rows, through = (looked_up := tokens.weight[ids]), ()  # (1,T,C)
    of_rows = first_event(before, lambda event: event.is_product and torch.equal(_read_by(events, event), looked_up))
    if rows.shape[-1] != entering.shape[-1] and of_rows is not None:  # of the rows of tokens alone (OPT)
        rows, through = of_rows.tensor, (Product(of_rows.module),)
    tables = [event for event in before if isinstance(event.module, nn.Embedding) and event not in positions]
    others = [event for event in tables if event.module.weight is not tokens.weight]
    factor, added = _embedding(entering, rows, positions[:1], others)
    host.entrances[part] = StackMaps(
        tokens=None if factor is None else (*through, Scaled(factor)),
        positions=_position_rows(positions[:1]),
        embedding=maps,
    )
    read = [event for event in before if event.module is tokens]
    if len(read) == 1 and not host.is_pair:  # a pair may share the table, and then one name were met twice
        if torch.equal(read[0].tensor, looked_up):  # Gemma's table gives rows that are multiplied already
            install("embed.tokens", read[0])
        for event in positions[:1]:
            install("embed.positions", event)
        for event in added:
            install("embed.segments", event)
    return {
        "embedding_norm": norm is not None,
        "embedding_factor": factor,
        "embedding_matrix": "sum" if matrix else "rows" if rows is not looked_up else "",
        "tied_unembedding": end is not None and end.weight is tokens.weight,
    }


def _position_rows(tables: list[Event]) -> Tensor | None:
    """The rows (N,C) of the positions 0, 1, …; a table may begin with others (OPT), which belong to no position."""
    for event in tables:
        rows, first = dict(event.module.named_parameters()).get("weight"), event.tensor.flatten(0, -2)[0]
        if rows is not None and rows.shape[-1] == len(first):
            places = (rows == first).all(-1).nonzero().flatten().tolist()
            return rows[places[0] :] if places else None
    return None


def _read_by(events: list[Event], given: Event) -> Tensor:
    """What the module of an output read."""
    return next(event.tensor for event in events if event.kind == "in" and event.module is given.module)


def _embedding(summed: Tensor, tokens: Tensor, positions: list[Event], others: list[Event]):
    """What rows of tokens are multiplied with in the sum that becomes the stream, and the rows of a segment (BERT) that
    are added besides positions, if there are any; None and nothing where it is no such sum."""
    for added in ([], others[:1]):
        rows = [event.tensor for event in (*positions, *added)]
        if any(one.shape[-1] != summed.shape[-1] for one in (tokens, *rows)):
            continue
        rest = summed - sum(rows)
        factor = ((rest * tokens).sum() / (tokens * tokens).sum()).item()
        if torch.allclose(rest, factor * tokens, atol=1e-5 * summed.abs().max().item()):
            return factor, added
    return None, []


@torch.inference_mode()
def _facts_of_head(host: HubTransformer, end: Tensor) -> dict:
    """How logits come of x: what stands before x·Wᵀ (+ bias); whether they are capped; what comes before the matrix."""
    layer, facts = host.model.get_output_embeddings(), {"unembedding_factor": None}
    if not host.config.has_unembedding or layer is None:
        return facts
    with recording(host.model) as events:
        logits = host.unembed(end)
    entered = first_event(reversed(events), lambda event: event.kind == "in" and event.module is layer)
    if entered is None:
        return facts
    if entered.tensor.shape == end.shape and _is_multiple(entered.tensor, end):  # T5 scales what it reads
        before, read, maps = {}, end, ()
    elif maps := _transforming(events, entered.tensor, end, host.config.activation):
        before, read = {"unembedding_hidden": host.config.activation}, entered.tensor
    else:
        return facts
    products = nn.functional.linear(read, layer.weight)
    cap = host.model.config.get_text_config().to_dict().get("final_logit_softcapping")
    for given, softcap in ((logits, None), (_uncapped(logits, cap), cap)):
        # what is added to the logits of all tokens falls out with their mean
        rest, own = given - given.mean(1, keepdim=True), products - products.mean(1, keepdim=True)
        factor = ((rest * own).sum() / (own * own).sum()).item()
        if torch.allclose(rest, factor * own, atol=1e-5 * given.abs().max().item(), rtol=1e-4):
            host.unembedding_maps = maps
            return before | {"unembedding_factor": factor, "unembedding_softcap": softcap}
    return facts


def _is_multiple(one: Tensor, other: Tensor) -> bool:
    factor = (one * other).sum() / other.square().sum()
    return torch.allclose(one, factor * other, atol=1e-6 * one.abs().max().item())


def _uncapped(logits: Tensor, cap: float | None) -> Tensor:
    """What the cap c·tanh(·/c) was made of."""
    return logits if cap is None else cap * (logits.double() / cap).clamp(-1, 1).atanh().float()


def _transforming(events: list[Event], entered: Tensor, end: Tensor, activation: str | None) -> Maps:
    """What makes it of the end of the stream, where it is norm(φ(x·W)), as BERT has it; else nothing."""
    norms = (event for event in events if event.kind == "out" and event.is_norm)
    norm = first_event(norms, lambda event: torch.equal(event.tensor, entered))
    product = first_event(events, lambda event: event.is_product and event.name != "")
    if norm is None or product is None or activation not in ACTIVATIONS:
        return ()
    read = first_event(events, lambda event: event.kind == "in" and event.module is norm.module)
    from_end = first_event(events, lambda event: event.kind == "in" and event.module is product.module)
    made = ACTIVATIONS[activation](product.tensor)
    if not (torch.equal(from_end.tensor, end) and torch.allclose(made, read.tensor, atol=1e-4, rtol=1e-4)):
        return ()
    return Product(product.module), Activation(ACTIVATIONS[activation]), Norm(norm.module)


def _kind_of_norm(norm: Event) -> str:
    """A layer norm takes the mean away, so it does not see what is added to all numbers; an RMS norm does."""
    moved = torch.randn(norm.tensor.shape, generator=torch.Generator().manual_seed(0))
    same = torch.allclose(norm.module(moved), norm.module(moved + 1), atol=1e-4, rtol=1e-3)
    return "layer" if same else "rms"


def _is_position_table(event: Event) -> bool:
    """A table of positions, by its name; M2M100 works its sinusoids out in a module of its own."""
    name = event.name.rpartition(".")[2]
    return event.is_leaf and event.kind == "out" and ("pos" in name or name == "wpe")


def _skips_blocks(host: HubTransformer, inputs: dict[str, Tensor], found: list[BlockSites], end: Tensor) -> bool:
    """Whether the first pass ends alike where all blocks but the first and the last of each stack are skipped, and the
    last one is given the stream that it had read. Some blocks read more than a stream of those before them."""
    facts = host.config
    streams = dict(zip(facts.block_names, (block.sites["resid_pre"].tensor for block in found), strict=True))
    stacks = [[facts.block_name(part, n) for n in range(facts.layers_of(part))] for part in facts.stacks or ("self",)]
    lasts = {f"{names[-1]}.resid_pre": streams[names[-1]] for names in stacks}
    put = {site: lambda _, stream=stream: stream.clone() for site, stream in lasts.items()}
    try:
        with torch.inference_mode(), skipping([name for names in stacks for name in names[1:-1]]), edit(put):
            again = host.hidden(**inputs)
    except Exception:  # the library's own code, which misses what a block would have left for it
        return False
    return torch.allclose(again, end, atol=TOLERANCE * end.abs().max().item(), rtol=0)


def _difference_to_own(host: HubTransformer, inputs: dict, end: Tensor) -> float | None:
    """The largest difference of logits (of the stream's end, where there are none) to the library's own attention."""
    family = host.config.family
    try:
        choose_attention(host.model, own_attention(host.model.config))
        with torch.inference_mode():
            own = host.hidden(**inputs)
    except Exception:  # a model that has no plain attention of its own cannot be compared
        return None
    finally:
        choose_attention(host.model, NAME)
    with torch.inference_mode():
        ours, theirs = (host.unembed(x) if host.config.has_unembedding else x for x in (end, own))
    difference = (ours - theirs).abs().max().item()
    if not difference <= TOLERANCE * max(1.0, theirs.abs().max().item()):
        raise CheckpointError(
            f"{family} cannot be shown: with our attention its logits differ by {difference:.3g} from its own, so "
            "it computes something that is not supported here."
        )
    return difference
