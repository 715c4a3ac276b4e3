"""The chances of tossed coins. scipy is the oracle of the tests, and takes seconds to import."""

from math import exp, lgamma, log


def tosses(n: int) -> list[float]:
    """How likely each number of heads is, from none to n."""
    return [
        exp(lgamma(n + 1) - lgamma(heads + 1) - lgamma(n - heads + 1) - n * log(2))
        for heads in range(n + 1)
    ]
