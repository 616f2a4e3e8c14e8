"""How property tests run: the same examples every time, few enough to wait for.

Without --slow it is the first third of them.
"""

from hypothesis import HealthCheck, settings

LEAST = 8


def examples(number):
    """A decorator: that many derandomised examples, without a deadline (the machine may be busy)."""
    return settings(
        max_examples=max(LEAST, number * settings().max_examples // 100),
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
