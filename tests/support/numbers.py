"""What `viz_ui.look.text.number` and the components write, read back."""

import re

_PLAIN = str.maketrans("−⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "--0123456789", ",")


def read_number(text):
    r"""The number that a person reads: 0.3312, −1.5, 12,350, 1.2×10⁻⁵, −∞; in a formula, 1.2 \times 10^{-5}."""
    text = text.replace("{,}", ",").replace(r" \times 10^{", "×10").removesuffix("}")
    mantissa, _, power = text.strip().translate(_PLAIN).replace("∞", "inf").partition("×10")
    return float(f"{mantissa}e{power or 0}" if mantissa.strip("-") != "inf" else mantissa)


def numbers_in(words: str) -> list[str]:
    """Every number that is written in a sentence, as it is written, in order."""
    return re.findall(r"−?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:×10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)?", words)
