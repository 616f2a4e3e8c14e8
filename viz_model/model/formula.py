"""The equation of one attention as it is written: from what the running model does, never from what most models do."""

from dataclasses import dataclass

from viz_model.model.trace import Trace


@dataclass(frozen=True)
class AttentionFormula:
    """softmax(QKᵀ/√D + M)·V, or what a layer has in its place, in plain text and in LaTeX.

    scale: what QKᵀ is multiplied with; by_width: whether that is 1/√D. softcap, has_bias, has_sink: what there is
    besides.
    """

    scale: float
    by_width: bool
    softcap: float | None = None
    has_bias: bool = False
    has_sink: bool = False

    @classmethod
    def of(cls, trace: Trace, layer: int) -> "AttentionFormula":
        """That of the trace's part in one layer."""
        equation = trace.equation(layer)
        by_width = abs(equation.scale * trace.config.d_head**0.5 - 1) < 1e-6
        has_bias, has_sink = trace.bias(layer, 0) is not None, trace.sink(layer, 0) is not None
        return cls(equation.scale, by_width, equation.softcap, has_bias, has_sink)

    @property
    def is_plain(self) -> bool:
        """Whether it is that of Vaswani et al. 2017, eq. 1, with a mask."""
        return self.by_width and self.softcap is None and not self.has_bias and not self.has_sink

    @property
    def scaling(self) -> str:
        """ "÷ √D", or "× 0.378"."""
        return "÷ √D" if self.by_width else f"× {self.scale:.4g}"

    @property
    def scaling_words(self) -> str:
        """ "divided by √D = √32 = 5.657", or "multiplied by 0.378"."""
        if self.by_width:
            return f"divided by √D = √{round(self.scale**-2)} = {1 / self.scale:.4g}"
        return f"multiplied by {self.scale:.4g}"

    @property
    def scores(self) -> str:
        return "QKᵀ/√D" if self.by_width else "QKᵀ" if self.scale == 1 else f"{self.scale:.4g}·QKᵀ"

    @property
    def softmax_input(self) -> str:
        """What M is added to."""
        capped = self.scores if self.softcap is None else f"{self.softcap:g}·tanh({self.scores} / {self.softcap:g})"
        return capped + (" + bias" if self.has_bias else "")

    @property
    def masked(self) -> str:
        return f"{self.softmax_input} + M"

    @property
    def weights(self) -> str:
        """With a sink, one more number that takes part in the softmax of each row."""
        return f"softmax({self.masked}{' | sink' if self.has_sink else ''})"

    @property
    def latex_scores(self) -> str:
        if self.by_width:
            return r"Q K^{\top} / \sqrt{D}"
        return r"Q K^{\top}" if self.scale == 1 else rf"{self.scale:.4g}\,Q K^{{\top}}"

    @property
    def latex_weights(self) -> str:
        scores = r"\frac{Q K^{\top}}{\sqrt{D}}" if self.by_width else self.latex_scores
        if self.softcap is not None:
            scores = rf"{self.softcap:g}\tanh\left(\frac{{{self.latex_scores}}}{{{self.softcap:g}}}\right)"
        bias, sink = " + b" if self.has_bias else "", r"\;\middle|\; s" if self.has_sink else ""
        return rf"\mathrm{{softmax}}\left({scores}{bias} + M{sink}\right)"

    @property
    def latex(self) -> str:
        """The whole attention of a head."""
        return rf"A = {self.latex_weights} \qquad \mathrm{{mixed}} = A V"
