"""The training loop: deterministic in its recipe, resumable at every saved step."""

import csv
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import torch
from torch import nn

from viz_model.errors import TrainingError
from viz_model.training.muon import Muon
from viz_model.training.objectives import stage_loss
from viz_model.training.recipes import ON_TEXT, Recipe, Stage
from viz_model.transformer import EncoderDecoder, Transformer, TransformerConfig, make_transformer
from viz_model.transformer.positions import sinusoidal_table

SAVE_EVERY = 200  # steps
AVERAGE_EVERY = 200  # steps
STATE_FILE, CURVE_FILE = "training-state.pt", "loss-curve.csv"
INITIAL_SPREAD = 0.02  # GPT-2's standard deviation of fresh weights


@dataclass(frozen=True)
class StepReport:
    """One step of a training; `tokens_per_second` over the steps since the last report."""

    step: int
    steps: int
    objective: str
    loss: float
    tokens_per_second: float
    seconds_left: float


def fresh_transformer(config: TransformerConfig, seed: int) -> Transformer | EncoderDecoder:
    """Weights as GPT-2's (Radford et al. 2019, §2.3): normal, those that write to the stream scaled down.

    A learned position table starts as the sinusoids of its size: still learned, but neighbours can be told
    from the first step on, which a table of noise must discover. Token rows that are scaled by √C come out of it
    with a deviation of 1, beside sinusoids of that size (Vaswani et al. 2017, §3.4 and §3.5).
    """
    torch.manual_seed(seed)
    model = make_transformer(config)
    for name, parameter in model.named_parameters():
        if name == "tokens.weight" and config.embedding_scale:
            nn.init.normal_(parameter, std=config.d_model**-0.5)
        elif parameter.dim() == 2:
            writes = name.endswith(("attn.output.weight", "cross.output.weight", "ffn.down.weight"))
            spread = INITIAL_SPREAD / (2 * config.n_layers) ** 0.5 if writes else INITIAL_SPREAD
            nn.init.normal_(parameter, std=spread)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
        if name.endswith("positions.weight"):
            table = sinusoidal_table(config.context_length, config.d_model)
            parameter.data = table * (INITIAL_SPREAD / table.std())
    return model


class Training:
    """A model on its way through a recipe; `folder` keeps the state and the loss curve, None keeps nothing.

    Raises TrainingError when the stream of training tokens is shorter than a row of it.
    """

    def __init__(self, recipe: Recipe, stream: np.ndarray, folder: Path | None):
        row = max((stage.length for stage in recipe.stages if stage.objective in ON_TEXT), default=0)
        if row and len(stream) <= row:
            raise TrainingError(
                f"The text has {len(stream):,} tokens to train on, but one row needs {row + 1:,}. Give a longer "
                "text, one paragraph a line."
            )
        self.recipe, self.stream, self.folder, self.step = recipe, stream, folder, 0
        self.model = fresh_transformer(recipe.config, recipe.seed)
        matrices = [p for name, p in self.model.named_parameters() if "blocks." in name and p.dim() == 2]
        in_matrices = {id(p) for p in matrices}
        others = [p for p in self.model.parameters() if id(p) not in in_matrices]
        self.optimizers = (
            Muon(matrices, lr=0.0),
            torch.optim.AdamW(others, lr=0.0, betas=(0.9, 0.98), weight_decay=0.0),
        )
        self.curve: list[tuple[int, str, float]] = []
        self.average: dict[str, torch.Tensor] = {}
        self.averaged = 0.0  # how many stages are in it; the last one in part

    def start_from(self, model: Transformer) -> None:
        """Take the weights of a finished model and begin at the last text stage, with fresh optimizers."""
        if model.config != self.recipe.config:
            raise TrainingError(
                "The model to start from has other sizes than the recipe. Choose the recipe that it was trained with."
            )
        self.model.load_state_dict(model.state_dict())
        self.step = self.recipe.first_text_step()

    @torch.no_grad()
    def take_weights(self, model: Transformer) -> None:
        """Begin with weights of another model: those of the recipe's patterns; it may have fewer tokens."""
        theirs = model.state_dict()
        for name, tensor in self.model.state_dict().items():
            if any(fnmatch(name, pattern) for pattern in self.recipe.taken):
                tensor[: len(theirs[name])] = theirs[name]

    def run(self, report: Callable[[StepReport], None], *, every: int = 25, save_every: int = SAVE_EVERY) -> None:
        """Take the steps that are left; `report` is called every so many steps, the state saved too."""
        self.model.train()
        losses, tokens, since = [], 0, time.perf_counter()
        while self.step < self.recipe.steps:
            stage, step_in_stage = self.recipe.at(self.step)
            if stage.from_mean and step_in_stage == 0:
                self._go_on_from_mean()
            losses.append(self._update(stage, step_in_stage))
            tokens += stage.all_rows * stage.length
            self.step += 1
            self._take_into_average(stage, step_in_stage)
            last = self.step == self.recipe.steps
            if self.step % every == 0 or last:
                seconds, loss = time.perf_counter() - since, float(np.mean(losses))
                left = seconds / len(losses) * (self.recipe.steps - self.step)
                self.curve.append((self.step, stage.objective, loss))
                report(StepReport(self.step, self.recipe.steps, stage.objective, loss, tokens / seconds, left))
                losses, tokens, since = [], 0, time.perf_counter()
            if self.folder is not None and (self.step % save_every == 0 or last):
                self.save()
        self._go_on_from_mean()
        self.model.eval()

    def _update(self, stage: Stage, step_in_stage: int) -> float:
        random = np.random.default_rng((self.recipe.seed, self.step))  # so that a resumed run sees the same
        share = rate_share(stage, step_in_stage)
        if stage.dropout_steps is not None and step_in_stage >= stage.dropout_steps:
            stage = replace(stage, dropout=0.0)
        for optimizer, rate in zip(self.optimizers, (stage.matrix_rate, stage.rate), strict=True):
            for group in optimizer.param_groups:
                group["lr"] = rate * share
        self.optimizers[0].param_groups[0].update(weight_decay=stage.weight_decay, bfloat16=stage.bfloat16)
        with torch.autocast("cpu", torch.bfloat16, enabled=stage.bfloat16):
            loss = stage_loss(self.model, stage, self.stream, random)
        if not loss.isfinite():
            raise TrainingError(
                f"The loss of step {self.step} is {loss.item()}. Lower the learning rates of its stage."
            )
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return loss.item()

    def _take_into_average(self, stage: Stage, step_in_stage: int) -> None:
        """Take the weights after this step into their mean, if it is one of those that are averaged.

        Izmailov et al. 2018, "Averaging Weights Leads to Wider Optima and Better Generalization", §3: also over the
        ends of several stages, in each of which the rates fall anew.
        """
        end = self.step - 1 - step_in_stage + stage.steps
        taken = [step for step in range(end - stage.averaged_steps, end) if step % AVERAGE_EVERY == 0] + [end]
        if not stage.averaged_steps or self.step not in taken:
            return
        self.averaged += 1 / len(taken)
        for name, tensor in self.model.state_dict().items():
            mean = self.average.setdefault(name, torch.zeros_like(tensor))
            mean += (tensor - mean) / (len(taken) * self.averaged)

    def _go_on_from_mean(self) -> None:
        """Take the mean as weights, where stages before named steps for it, and begin another mean."""
        if self.averaged:
            self.model.load_state_dict(self.average)
        self.average, self.averaged = {}, 0.0

    def save(self) -> None:
        """Write state and loss curve; a stop in between leaves the former state whole."""
        self.folder.mkdir(parents=True, exist_ok=True)
        state = {
            "recipe": repr(self.recipe.config),
            "step": self.step,
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "curve": self.curve,
            "average": self.average,
            "averaged": self.averaged,
        }
        unfinished = self.folder / f"{STATE_FILE}.unfinished"
        torch.save(state, unfinished)
        unfinished.replace(self.folder / STATE_FILE)
        with (self.folder / CURVE_FILE).open("w", newline="") as file:
            csv.writer(file).writerows([("step", "objective", "loss"), *self.curve])

    def resume(self) -> bool:
        """Go on from the saved state, if there is one; TrainingError where it is damaged or another's."""
        path = self.folder / STATE_FILE
        if not path.exists():
            return False
        try:
            state = torch.load(path, weights_only=True)
            its_config, average, averaged = state["recipe"], state["average"], state["averaged"]
        except Exception as error:  # torch names none of the many that a damaged file raises
            raise TrainingError(f"{path} is damaged, or is not a training state. Remove it to start again.") from error
        if its_config != repr(self.recipe.config):
            raise TrainingError(f"{path} belongs to another recipe. Remove it, or train into another folder.")
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.step, self.curve = state["step"], [tuple(point) for point in state["curve"]]
        self.average, self.averaged = average, averaged
        return True


def rate_share(stage: Stage, step: int) -> float:
    """The share of the full rate at a step: linear warm-up, level, linear fall to a twentieth."""
    warm_up = min(1.0, (step + 1) / stage.warm_up)
    falling = stage.decay * stage.steps
    left = (stage.steps - step) / falling if falling else 1.0
    return warm_up * max(0.05, min(1.0, left))
