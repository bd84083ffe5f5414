"""Views by what they belong to, such as runs by their DAG: nothing is kept for what has none any more."""

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

Owner = TypeVar("Owner", bound=Hashable)
Name = TypeVar("Name", bound=Hashable)
View = TypeVar("View")


class Index(Generic[Owner, Name, View]):
    """The views of each owner, by name."""

    def __init__(self) -> None:
        self._views: dict[Owner, dict[Name, View]] = {}

    def __contains__(self, owner: Owner) -> bool:
        return owner in self._views

    def of(self, owner: Owner) -> Iterable[View]:
        """All views of one owner, in no order."""
        return self._views.get(owner, {}).values()

    def put(self, owner: Owner, name: Name, view: View) -> None:
        """Add one, or replace the one of this name."""
        self._views.setdefault(owner, {})[name] = view

    def discard(self, owner: Owner, name: Name) -> None:
        """Take one away, if it is there."""
        if name in self._views.get(owner, {}):
            self.drop(owner, name)

    def drop(self, owner: Owner, name: Name) -> None:
        """Take one away that is there."""
        views = self._views[owner]
        del views[name]
        if not views:
            del self._views[owner]
