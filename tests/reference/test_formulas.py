"""Every line of the shape reference, read as it is printed and worked out from the weights of the library's model.

`formula_reader` reads, `weights_by_name` says what a symbol is; what comes out must be the tensor that the pass had.
"""

import sys
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

import viz_model as vm
from tests.reference.families import FAMILIES, save_small
from tests.reference.formula_reader import UnreadableError, evaluate, evaluate_mask
from tests.reference.variants import ALL
from tests.reference.weights_by_name import NAMES, Weights, numbers, written_norm
from tests.support.small_models import make_model, small_config
from viz_model.model import Model
from viz_model.shapes.nodes import local_name
from viz_model.shapes.reference import quantities
from viz_model.transformer.hooks import capture

IDS = [5, 9, 11, 9, 11, 30, 44, 7, 8, 9, 11, 20]
SOURCE = [9, 30, 4, 55, 21, 7, 13]
TOLERANCE = 2e-5  # of the largest number of a tensor: float32 over some hundred products


def faults(model, layers=None) -> list[str]:
    """What is wrong with the lines of a model, in all its parts and layers."""
    prompt, target = (SOURCE, IDS) if model.has_source else (IDS, None)
    with torch.inference_mode(), capture(optional=["*"]) as found:
        model.transformer(torch.tensor([IDS]), **({"source": torch.tensor([SOURCE])} if target else {}))
    captured = {name: tensor.double().numpy() for name, tensor in found.items()}
    trace, told = model.trace(prompt, target=target), []
    for part in model.config.parts:
        view = trace.of(part)
        for layer in range(view.n_layers):
            page = Page(model, view, layer, captured)
            told += [f"{part}, layer {layer}: {fault}" for fault in page.faults()]
    return told


class Page:
    """The lines of one layer as they stand on the page, read from the first to the last."""

    def __init__(self, model, view, layer, captured):
        self.config, self.layer, self.captured, self.view = model.config, layer, captured, view
        self.rows = quantities(model, view, layer)
        found = {local_name(row.site).removeprefix("attn.").removeprefix("cross.") for row in self.rows}
        assert found >= AT_LEAST, f"there is no line for {AT_LEAST - found}"
        self.stack, self.block = self.config.stack_name(view.part), self.config.block_name(view.part, layer)
        sizes = (self.config.n_heads, self.config.n_kv_heads, self.config.d_head)
        self.weights = Weights(model.transformer.network, view.part, layer, sizes, self.config.d_model)
        self.ids = np.array(view.ids)
        self.outs = []
        self.known = self.weights.symbols(len(self.ids))
        if view.part == "cross":
            self.known["y"] = captured["encoder.final_norm"][0]

    def faults(self) -> list[str]:
        told, group = [], None
        for row in self.rows:
            local = local_name(row.site).removeprefix("attn.").removeprefix("cross.")
            if row.group != group:
                group = row.group
                self.begin(group)
            there = self.captured[row.site]
            try:
                value, rounding = self.value(local, row.formula, there)
                if value.shape != there.shape:
                    raise UnreadableError(f"{row.formula} has the shape {value.shape}, not {there.shape}")
            except (UnreadableError, ValueError) as error:  # ValueError: shapes that do not fit
                told.append(f"{row.site}: {error}")
            else:
                difference = np.abs(value.astype(float) - there).max() / max(np.abs(there).max(), 1e-9)
                if not difference <= TOLERANCE + rounding:
                    told.append(f"{row.site} is not {row.formula}: {difference:.3g} of its largest number")
            self.learn(local, there)
        return told

    def begin(self, group: str) -> None:
        """What x is where a group begins: the stream that the last line before it made."""
        if group == "Into the stream":
            table = self.weights.matrix_of("E").weight
            self.known[r"E[\mathrm{ids}]"] = table[self.ids]
            self.known |= self.tables()
            ends = self.known | {r"\mathrm{norm}": self.embedding_norm()}
            self.known = {name: one for name, one in ends.items() if one is not None}
        if self.view.part in ("decoder", "cross"):  # what the block's other attention wrote stands on another page
            for name, local in ((r"\mathrm{out}_{self}", "attn"), (r"\mathrm{out}_\times", "cross")):
                self.known[name] = self.captured[f"{self.block}.{local}.out"][0]
        if group == "Attention" and self.layer:
            self.known["x"] = self.captured[f"{self.config.block_name(self.view.part, self.layer - 1)}.resid_post"][0]
        if group == "Out of the stream":
            last = self.config.layers_of(self.view.part) - 1
            self.known["x"] = self.captured[f"{self.config.block_name(self.view.part, last)}.resid_post"][0]
            if (module := self.weights.module(r"\mathrm{norm}")) is not None:
                self.known[r"\mathrm{norm}"] = written_norm(module)
            self.known.pop(r"\hat{x}", None)

    def embedding_norm(self):
        module = self.weights.module("embedding norm") or self.weights.module(r"\mathrm{norm}")
        return None if module is None else written_norm(module)

    def tables(self) -> dict:
        """Rows of positions and of segments, all of which are the first."""
        own, length = {}, len(self.ids)
        if self.config.position == "sinusoidal" and self.config.is_skeleton:  # Vaswani et al. 2017, §3.5
            angles = np.arange(length)[:, None] / 10000 ** (np.arange(0, self.config.d_model, 2) / self.config.d_model)
            own["P"] = own[r"P[0\ldotsT-1]"] = np.stack((np.sin(angles), np.cos(angles)), -1).reshape(length, -1)
        if (module := self.weights.module("P")) is not None:
            offset = self.weights.names.offset
            table = numbers(module.weight if hasattr(module, "weight") else module.weights)
            own["P"] = own[r"P[0\ldotsT-1]"] = table[offset : offset + length]
        if (module := self.weights.module("S")) is not None:
            own[r"S[\mathrm{segments}]"] = numbers(module.weight)[[0] * length]
        return own

    def value(self, local: str, formula: str, there: np.ndarray) -> tuple[np.ndarray, float]:
        """As the formula says; the batch, and the axes that all heads share, put in front."""
        if local == "mask":
            return np.broadcast_to(evaluate_mask(formula, *there.shape[-2:]), there.shape), 0.0
        if local == "sinks":
            return numbers(self.sinks()), 0.0
        if local == "bias":
            i, j = np.arange(there.shape[-2])[:, None], np.arange(there.shape[-1])[None, :]
            self.known |= {"i": i, "j": j} | self.weights.bias(*there.shape[-2:])
        read = evaluate(formula, self.known)
        value = np.where(np.isneginf(read.value), 0.0, read.value) if local == "ffn.shares" else read.value
        if there.ndim == 4 and value.ndim == 2:  # (T,H·D) -> (H,T,D)
            value = np.swapaxes(value.reshape(len(value), -1, there.shape[-1]), 0, 1)
        return value[None] if value.ndim == there.ndim - 1 else value, read.rounding

    def sinks(self):
        path = self.weights.names.stacks["self"].format(self.layer)
        return dict(self.weights.model.get_submodule(path).named_parameters())["self_attn.sinks"]

    def learn(self, local: str, there: np.ndarray) -> None:
        """What the line adds to the symbols: its captured tensor."""
        known, own = self.known, there[0] if there.ndim > 1 else there
        post = self.config.norm_place == "post"
        if local.startswith(("norm", "final_norm")):
            known["x" if post else r"\hat{x}"] = own
        if local == "embed" or local.startswith("resid"):
            known["x"], self.outs = own, []
        if local == "final_norm":
            known["x_{T-1}"] = known[r"\hat{x}_{T-1}"] = own[-1:]
        if local in ("out", "ffn.out"):
            self.outs.append(own)
        if local.endswith("out_norm"):
            self.outs[-1] = own
        if self.outs:
            known[r"\mathrm{out}"], known[r"\sum\mathrm{out}"] = self.outs[-1], sum(self.outs)
        if local == "ffn.shares":
            self.known["of an expert"]["p_e"] = lambda expert: own[:, expert]
        names = {"q": "Q", "k": "K", "v": "V", "scores": r"\mathrm{scores}", "capped": r"\mathrm{capped}", "bias": "b",
                 "weights": "A", "ffn.hidden": r"\mathrm{hidden}"}  # fmt: skip
        if local in names:
            known[names[local]] = own
        if local == "mask":
            known["M"] = np.where(there[0] if there.ndim == 4 else there, 0.0, -np.inf)
        if local == "sinks":
            known["s_h"] = own


@pytest.fixture(scope="module")
def model_of(tmp_path_factory):
    @cache
    def get(name):
        folder = tmp_path_factory.mktemp("model")
        save_small(ALL[name], folder)
        return vm.load(folder)

    return get


OURS = {
    "GPT-2's": {},
    "Llama's": {"position": "rotary", "norm": "rms", "activation": "swiglu", "n_kv_heads": 2, "bias": False,
                "tied_unembedding": False},
    "RoFormer's": {"position": "rotary", "rotary_pairs": "neighbours", "activation": "relu"},
    "BERT's": {"layout": "encoder-only", "norm_place": "post", "embedding_norm": True, "activation": "gelu"},
    "that of 2017": {"layout": "encoder-decoder", "n_encoder_layers": 2, "position": "sinusoidal",
                     "embedding_scale": True, "norm_place": "post", "activation": "relu"},
    "two stacks, pre-norm": {"layout": "encoder-decoder", "n_encoder_layers": 1},
}  # fmt: skip


@pytest.mark.parametrize("kind", OURS)
def test_formulas_of_our_own_transformer_give_the_tensors_of_the_pass(kind):
    model = Model(kind, make_model(small_config(**OURS[kind], vocab_size=67)))
    assert faults(model) == []


FEW = ("GPT-2", "Llama", "Gemma 2", "DeepSeek-V3", "BERT")  # the others take a minute together
AT_LEAST = {"embed", "q", "k", "v", "mask", "scores", "weights", "mixed", "out", "ffn.out", "resid_post", "final_norm"}


@pytest.mark.parametrize("name", [name if name in FEW else pytest.param(name, marks=pytest.mark.slow) for name in ALL])
def test_every_formula_gives_the_tensor_of_the_pass(name, model_of):
    assert faults(model_of(name)) == []


def test_forty_families_are_read():
    assert len({family.model_type for family in ALL.values()}) >= 40
    assert {family.model_type for family in FAMILIES.values()} <= NAMES.keys(), "say in NAMES where its weights are"


WRONG = [  # what stands in a formula, what is left out of it or put there instead, and in which model
    ("Qwen3", r"\mathrm{norm}_Q(\hat{x}\,W_{Q})", r"\hat{x}\,W_{Q}"),
    ("Llama", r"R_j\,", ""),
    ("Llama", r"\hat{x}", "x"),
    ("Llama", r"\mathrm{SiLU}(\hat{x}\,W_g) \odot \hat{x}\,W_1", r"\mathrm{SiLU}(\hat{x}\,W_1)"),
    ("GPT-2", r"\mathrm{GELU}_{\tanh}", r"\mathrm{GELU}"),
    ("GPT-2", " + P", ""),
    ("Gemma 2", r"\sqrt{C}\,", ""),
    ("Gemma 2", r"\mathrm{capped}", r"\mathrm{scores}"),
    ("Gemma 2", r"\mathrm{norm}_{1'}(\mathrm{out})", r"\mathrm{out}"),
    ("Gemma 2", r"i - j < 5", r"i - j < 6"),
    ("Granite", r"x + 0.5\,\mathrm{out}", r"x + \mathrm{out}"),
    ("Cohere", r"0.3\,\hat{x}_{T-1}", r"\hat{x}_{T-1}"),
    ("gpt-oss", r"\mid s_h", ""),
    ("gpt-oss", r"(1 + \mathrm{clip}_{7}", r"(\mathrm{clip}_{7}"),
    ("Mixtral", r"\mathrm{top}_{2}", r"\mathrm{top}_{3}"),
    ("DeepSeek-V3", r"\mathrm{norm}_K(\hat{x}\,W_{DK})", r"\hat{x}\,W_{DK}"),
    ("T5", " + b", ""),
    ("OPT", r"\,W_E", ""),
    ("Llama 4", r"(p_e\,\hat{x})", r"\hat{x}"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "said", "wrong"), WRONG)
def test_a_formula_that_says_less_is_seen(name, said, wrong, model_of, monkeypatch):
    written, met = quantities, []  # before it is replaced

    def changed(*arguments):
        rows = written(*arguments)
        met.append(any(said in row.formula for row in rows))
        return [replace(row, formula=row.formula.replace(said, wrong)) for row in rows]

    monkeypatch.setattr(sys.modules[__name__], "quantities", changed)
    assert faults(model_of(name))
    assert any(met)


@pytest.mark.parametrize("formula", [r"f(\hat{x})", r"\mathrm{head}(\hat{x}_{T-1})", "Q = ", r"\hat{x}\,W_{?}", "x x"])
def test_what_does_not_say_how_is_not_read(formula):
    known = {"x": np.eye(2), r"\hat{x}": np.eye(2), r"\hat{x}_{T-1}": np.eye(2)}
    with pytest.raises(UnreadableError):
        evaluate(formula, known)
