"""One live read into a cache: after a conflict, after a lost answer, and before what must not go by a stale cache."""

from fencepost.api.names import Kind
from fencepost.kube.errors import ApiError, NotFoundError
from fencepost.kube.protocol import Api
from fencepost.observe.reflector import Cache


async def refresh(api: Api, kind: Kind, cache: Cache, namespace: str | None, name: str) -> bool:
    """Read one object and take it in, or take it out if it is gone; False when the API server did not answer."""
    try:
        cache.upsert(await api.get(kind, namespace, name))
    except NotFoundError:
        # Gone now, whatever version is known: nothing newer than this read can have been seen.
        cache.remove((namespace or "", name), 2**63)
    except ApiError:
        return False
    return True
