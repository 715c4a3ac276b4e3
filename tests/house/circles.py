"""Circles in a graph: its strongly connected components, by Tarjan's algorithm."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet


def find_circles(edges: Mapping[str, AbstractSet[str]]) -> list[list[str]]:
    """Return each set of nodes that lead back to one another, sorted; a node alone is none.

    R. Tarjan, Depth-first search and linear graph algorithms, SIAM J. Comput. 1 (1972).
    """
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    circles: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(edges.get(node, set())):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            start = stack.index(node)
            component = stack[start:]
            del stack[start:]
            if len(component) > 1:
                circles.append(sorted(component))

    for node in sorted(edges):
        if node not in index:
            visit(node)
    return sorted(circles)
