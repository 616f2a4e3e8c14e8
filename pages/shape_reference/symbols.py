"""What the symbols of the formulas stand for: one sentence each, of those that a page has."""

from collections.abc import Iterable

from viz_model.transformer.attention import Equation
from viz_model.transformer.facts import ModelFacts

NORMS = {
    "rms": "norm divides a vector by the root of its mean square and multiplies each number by a learned one.",
    "layer": "norm takes the mean away from a vector, divides it by its standard deviation, and multiplies each number "
    "by a learned one.",
}
PAIRS = {"halves": "numbers n and n + {half}", "neighbours": "numbers 2n and 2n + 1"}
SENTENCES = (  # what a formula has to contain, and what it then stands for
    (r"\odot", "⊙ multiplies number by number."),
    ("W_g", "W_g makes the gate."),
    ("_{1'}", "norm₁′ and norm₂′ are norms of what attention and feed-forward write."),
    ("W_{D", "W_D makes a vector shorter, and W_U makes it longer again."),
    ("W_R", "W_R makes the part of a key that is rotated. All heads share this part."),
    ("W_E", "W_E brings the embedding to the width C."),
    ("W_x", "W_x brings the final hidden state to the width of the unembedding."),
    ("W_h", "W_h and norm_h belong to one more step, right before the unembedding."),
    ("p_e", "p_e is the share of expert e."),
    (r"\mathrm{top}_", "top_k keeps the k largest numbers of a row, and the others take no part."),
    (":", "In top_{k, g:G}, these k numbers come from the best g of G groups of experts."),
    (r"\mathrm{share}", "share divides numbers by their sum."),
    (r"\sigma", "σ is the sigmoid, 1 / (1 + e^−z)."),
    ("^s", "The matrices with s are those of the expert that reads every token."),
    ("w_s", "w_s makes the number from which the gate of that expert is computed."),
    (r"\mathrm{clip}", "clip_c keeps numbers between −c and c."),
    (r"\mathrm{SiLU}", "SiLU(z) is z·σ(z), and SiLU_a(z) is z·σ(a·z)."),
    (r"\lfloor", "⌊ ⌋ rounds down."),
    ("B_h", "B_h has a learned number for each bucket of distances, in each head."),
    ("m_h", "m_h is the slope of head h."),
    (r"\mathrm{out}_", "“out” is what an attention of this block writes. Its index says which attention that is."),
)
# What stands for more than a sum or a product, and how it is written in a formula.
OWN_STEPS = {"embed": r"\mathrm{embed}", "head": r"\mathrm{head}", "f": "f("}
OWN_STEPS |= {f"f_{letter}": f"f_{letter}(" for letter in "QKVO"}


def explanations(formulas: Iterable[str], config: ModelFacts, equation: Equation) -> list[str]:
    """A sentence for each symbol that needs one."""
    formulas = list(formulas)

    def stands(symbol: str) -> bool:
        return any(symbol in formula for formula in formulas)

    said = [sentence for symbol, sentence in SENTENCES if stands(symbol)]
    if stands(r"\mathrm{norm}") and config.norm in NORMS:
        said.append(NORMS[config.norm])
    if stands("R_i"):
        said.append(_turn(config, equation))
    own = [name for name, symbol in OWN_STEPS.items() if stands(symbol)]
    if own:
        stand, steps = ("stand", "steps") if len(own) > 1 else ("stands", "a step")
        said.append(f"{' and '.join(own)} {stand} for {steps} of the model's own code, too long to write out here.")
    return said


def _turn(config: ModelFacts, equation: Equation) -> str:
    """How many numbers of a head turn, and in which pairs."""
    rotation = equation.rotation
    if rotation is None:
        return "R_i turns a query or a key by angles that grow with its position i."
    turning = 2 * len(rotation.frequencies)
    numbers = "the numbers" if turning == config.d_head else f"the first {turning} of the {config.d_head} numbers"
    pairs = PAIRS[rotation.pairs].format(half=turning // 2)
    scale = "" if rotation.scale == 1 else f" and multiplies them by {rotation.scale:.4g}"
    return f"R_i turns {numbers} of a head in pairs ({pairs}) by angles that grow with the position i{scale}."
