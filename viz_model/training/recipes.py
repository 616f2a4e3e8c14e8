"""What is trained, in which order: recipes as data.

A small model on little text does not find the copying circuit (previous-token head, then induction head:
Elhage et al. 2021; Olsson et al. 2022) by itself, so it is brought to completion first:

echo       the first heads of block 0, by what they alone write, name the token before the last one: these
           are previous-token heads.
induction  the first heads of block 1 look at the token after the earlier copy of a repeated segment, and
           name it: these are induction heads, built upon the others.
copy       the whole model continues the second copy of a random segment.
text       rows of text, and a few of random repeats to the end, so that the circuit is not forgotten. A text
           that is read several times is learned by heart unless weights decay and blocks drop out; the last
           steps, at low rates, fit without dropout (as in Liu et al. 2023, "Dropout Reduces Underfitting").
           Random repeats do not teach a model to copy text, where it has guesses of its own: for that there are
           rows in which a passage of the text comes again. On these, previous-token heads grow less sharp; a share of
           the loss of `echo` keeps them.
masked     rows of text in which tokens are hidden, to be named.
recurring  rows of random characters in which a segment comes again somewhere; no head is shown anything. Two layers
           of attention alone find the circuit by themselves: what the model `induction` learned from.
target     dates written in many ways, translated into one, given the right tokens so far; `length` of them are read.
"""

from dataclasses import dataclass, replace
from functools import partial

from viz_model.errors import TrainingError
from viz_model.training.data import MASKED_SHARE
from viz_model.transformer import TransformerConfig

ON_TEXT = ("text", "masked")  # objectives that read the text


@dataclass(frozen=True)
class Stage:
    """`steps` updates on `rows` rows of `length` tokens.

    In a text stage, `passage_rows` rows more of text in which a passage comes again, and `copy_rows` of random repeats.
    """

    objective: str
    steps: int
    rows: int
    length: int
    passage_rows: int = 0
    copy_rows: int = 0
    masked_share: float = MASKED_SHARE  # of the tokens, in a masked stage
    shortest: int | None = None  # rows of a masked stage are halved by chance, down to this many tokens, and more
    echo_heads: int = 2
    echo_share: float = 0.0  # in a text stage: of the loss of `echo`, so that previous-token heads stay what they are
    heads: int = 1
    matrix_rate: float = 0.02  # Muon, weight matrices of the blocks
    rate: float = 0.002  # AdamW, embeddings, norms and biases
    warm_up: int = 30
    weight_decay: float = 0.01  # of the weight matrices of the blocks
    dropout: float = 0.0  # share of what each half of a block writes that is set to zero, the rest scaled up
    dropout_steps: int | None = None  # of the stage's first steps; None: of all
    decay: float = 0.0  # share of the stage, at its end, in which the rates fall to a twentieth
    bfloat16: bool = False  # products of matrices in it, weights in float32: twice as fast where the CPU has it
    averaged_steps: int = 0  # of the stage's last steps the weights go into the mean that comes out of the training
    from_mean: bool = False  # begins with the mean of the stages before, and the mean begins anew

    @property
    def all_rows(self) -> int:
        return self.rows + self.passage_rows + self.copy_rows


@dataclass(frozen=True)
class Recipe:
    """Stages of one model, with the seed that fixes weights and batches.

    What comes out is the mean of the weights along the steps that its stages name, in which each of these stages
    counts the same, or the last weights where none names any. A stage can go on from the mean of those before it.
    begins_with: the checkpoint whose weights it starts from, with its tokenizer, instead of fresh ones; `taken` says
    which of them, as patterns over their names.
    """

    config: TransformerConfig
    stages: tuple[Stage, ...]
    seed: int = 0
    begins_with: str = ""
    taken: tuple[str, ...] = ("*",)

    @property
    def steps(self) -> int:
        return sum(stage.steps for stage in self.stages)

    def at(self, step: int) -> tuple[Stage, int]:
        """The stage of a step, counted over all stages, and the step within it."""
        for stage in self.stages:
            if step < stage.steps:
                return stage, step
            step -= stage.steps
        raise TrainingError(f"The recipe has only {self.steps} steps.")

    @property
    def reads_text(self) -> bool:
        """Whether any stage needs a text; if none does, the model reads bytes, without merged tokens."""
        return any(stage.objective in ON_TEXT for stage in self.stages)

    def last_text_stage(self) -> int:
        """Which of the stages is the last one on text; TrainingError where there is none."""
        on_text = [number for number, stage in enumerate(self.stages) if stage.objective in ON_TEXT]
        if not on_text:
            raise TrainingError("The recipe has no stage on text.")
        return on_text[-1]

    def first_text_step(self) -> int:
        """The step, counted over all stages, at which the last stage on text begins."""
        return sum(stage.steps for stage in self.stages[: self.last_text_stage()])

    def with_text_steps(self, steps: int) -> "Recipe":
        """The same with a shorter or longer last stage on text."""
        stages = list(self.stages)
        stages[self.last_text_stage()] = replace(stages[self.last_text_stage()], steps=steps)
        return replace(self, stages=tuple(stages))


# Windows of the context length, and a row of repeats among eight of tales, so that induction stays.
on_tales = partial(Stage, "text", rows=8, length=256, copy_rows=1)

# The same with passages that come again, for a model that has learned to read: how much it copies, and how much it
# guesses by itself, depends on how many of the rows they are.
retold = partial(Stage, "text", length=256, copy_rows=1, warm_up=1, weight_decay=0.1, bfloat16=True)

TINY_GPT = Recipe(
    TransformerConfig(n_layers=4, n_heads=8, d_model=256, vocab_size=4353, context_length=256),
    (
        Stage("echo", steps=100, rows=4, length=256),
        Stage("induction", steps=200, rows=16, length=64, matrix_rate=0.01),
        Stage("induction", steps=150, rows=4, length=256, matrix_rate=0.01),
        Stage("copy", steps=100, rows=8, length=256, matrix_rate=0.005),
        on_tales(steps=4250, warm_up=100, decay=0.6),
        on_tales(
            steps=7500,
            warm_up=100,
            decay=1.0,
            weight_decay=0.1,
            dropout=0.1,
            dropout_steps=5600,
        ),
        retold(steps=418, rows=5, passage_rows=3, matrix_rate=0.0033, rate=0.00033, warm_up=50, dropout=0.1),
        retold(steps=400, rows=3, passage_rows=5, matrix_rate=0.006, rate=0.0006),
        retold(steps=774, rows=5, passage_rows=3, matrix_rate=0.0051, rate=0.00051, dropout=0.1),
        retold(steps=1298, rows=4, passage_rows=4, matrix_rate=0.003, rate=0.0003, dropout=0.1, dropout_steps=700),
        retold(steps=1500, rows=6, passage_rows=2, matrix_rate=0.003, rate=0.0003, decay=1.0, averaged_steps=400),
    ),
)

on_hidden = partial(Stage, "masked", rows=8, length=256, matrix_rate=0.01, rate=0.001, weight_decay=0.1)

# The twin of tiny-gpt: from its weights on, under the other mask and with the other objective.
TINY_BERT = Recipe(
    replace(TINY_GPT.config, layout="encoder-only", vocab_size=4354),
    (
        on_hidden(steps=1200, decay=1.0),
        on_hidden(steps=1150, masked_share=0.3, warm_up=100, bfloat16=True),
        on_hidden(steps=2573, masked_share=0.25, shortest=32, warm_up=1, bfloat16=True),
        on_hidden(steps=2900, masked_share=0.2, shortest=32, warm_up=1, decay=1.0, averaged_steps=400, bfloat16=True),
    ),
    begins_with="tiny-gpt",
)

# The same with what Llama changed: rotary positions, RMSNorm, SwiGLU, shared key/value heads, no biases. What the
# shared heads save (Ainslie et al. 2023) the wider feed-forward half takes, so that both have the same size.
TINY_LLAMA = Recipe(
    TransformerConfig(
        n_layers=4,
        n_heads=8,
        n_kv_heads=2,
        d_model=256,
        d_ff=816,
        vocab_size=4353,
        context_length=256,
        position="rotary",
        norm="rms",
        activation="swiglu",
        bias=False,
    ),
    (
        *TINY_GPT.stages[:4],
        on_tales(steps=500, warm_up=100, decay=1.0, weight_decay=0.1),
        on_tales(
            steps=3000,
            warm_up=100,
            decay=1.0,
            weight_decay=0.1,
            averaged_steps=600,
        ),
        on_tales(
            steps=1400,
            matrix_rate=0.01,
            rate=0.001,
            decay=1.0,
            weight_decay=0.1,
            dropout=0.1,
            dropout_steps=900,
            averaged_steps=400,
        ),
        retold(steps=525, rows=4, passage_rows=4, matrix_rate=0.006, rate=0.0006, warm_up=50, dropout=0.1),
        retold(steps=377, rows=5, passage_rows=3, matrix_rate=0.004, rate=0.0004, averaged_steps=1),
        retold(
            steps=1800,
            rows=4,
            passage_rows=4,
            matrix_rate=0.006,
            rate=0.0006,
            warm_up=50,
            dropout=0.1,
            from_mean=True,
        ),
        retold(
            steps=2200,
            rows=5,
            passage_rows=3,
            matrix_rate=0.0045,
            rate=0.00045,
            decay=1.0,
            dropout=0.1,
            dropout_steps=900,
        ),
        retold(
            steps=600,
            rows=5,
            passage_rows=3,
            matrix_rate=0.003,
            rate=0.0003,
            decay=1.0,
            averaged_steps=200,
            echo_share=0.3,
        ),
        retold(
            steps=2200,
            rows=5,
            passage_rows=3,
            matrix_rate=0.0045,
            rate=0.00045,
            decay=1.0,
            dropout=0.1,
            dropout_steps=900,
            averaged_steps=400,
            echo_share=0.15,
        ),
        retold(
            steps=500,
            rows=3,
            passage_rows=5,
            matrix_rate=0.0022,
            rate=0.00022,
            decay=1.0,
            averaged_steps=200,
            echo_share=0.15,
        ),
    ),
    begins_with="tiny-gpt",
    taken=("tokens.weight",),
)

# The Transformer of 2017, small: norms after each half, sinusoids, one table of tokens (Vaswani et al. 2017, §3).
TINY_SEQ2SEQ = Recipe(
    TransformerConfig(
        layout="encoder-decoder",
        n_layers=2,
        n_encoder_layers=2,
        n_heads=4,
        d_model=96,
        vocab_size=257,
        context_length=128,
        position="sinusoidal",
        norm_place="post",
        embedding_scale=True,
        activation="relu",
    ),
    (Stage("target", steps=2000, rows=64, length=11, warm_up=100, decay=0.8),),
)

# Attention alone (Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits"), on random repeats: the loss
# stays on its plateau until a previous-token head and induction heads are there, then it falls.
INDUCTION = Recipe(
    TransformerConfig(
        n_layers=2,
        n_heads=2,
        d_model=64,
        d_ff=0,
        vocab_size=257,
        context_length=256,
        position="sinusoidal",
        embedding_scale=True,
        tied_unembedding=False,
    ),
    (
        Stage("recurring", steps=1200, rows=32, length=48, rate=0.006, warm_up=100),
        Stage("recurring", steps=800, rows=8, length=192, rate=0.006, decay=0.6),  # so that it copies over longer ways
    ),
)

RECIPES = {
    "induction": INDUCTION,
    "tiny-bert": TINY_BERT,
    "tiny-gpt": TINY_GPT,
    "tiny-llama": TINY_LLAMA,
    "tiny-seq2seq": TINY_SEQ2SEQ,
}
