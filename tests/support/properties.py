"""How property tests run: the same examples every time, few enough to wait for."""

from hypothesis import HealthCheck, settings


def examples(number):
    """A decorator: that many derandomised examples, without a deadline (the machine may be busy)."""
    return settings(
        max_examples=number,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
