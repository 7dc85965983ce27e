"""Which environment variables were read, and whether they still have the same values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


class ReadVariables(Mapping[str, str]):
    """An environment that remembers each variable that is read in it, set or not.

    Args:
        environment: The environment; later changes of it are seen.

    >>> environment = {"KEY": "first"}
    >>> variables = ReadVariables(environment)
    >>> variables["KEY"], variables.get("URL")
    ('first', None)
    >>> environment["OTHER"] = "1"
    >>> variables.have_changed()
    False
    >>> environment["URL"] = "http://host"
    >>> variables.have_changed()
    True
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._values: dict[str, str | None] = {}  # None: not set

    def have_changed(self) -> bool:
        """Whether a variable that was read has another value now."""
        values = list(self._values.items())
        return any(self._environment.get(name) != value for name, value in values)

    def __getitem__(self, name: str) -> str:
        value = self._environment.get(name)
        self._values.setdefault(name, value)
        return self._environment[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._environment)

    def __len__(self) -> int:
        return len(self._environment)
