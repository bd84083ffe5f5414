"""Objects as the bytes that are sent.

One kind is sent in the very spelling in which Go would write it. The data of a ControllerRevision may not change, and
the API server keeps them as the bytes that it was sent, and compares those. Whoever patches anything else of it (the
garbage collector, when it takes the owner of an orphan away) sends the data in Go's spelling: sorted keys, and escapes
where JSON needs none. Were they stored in another one, the server would see a change of what is immutable, and `kubectl
delete --cascade=orphan` of the owner would never end.
"""

import orjson

from fencepost.api.names import CONTROLLER_REVISIONS, Kind
from fencepost.kube.protocol import Obj

_ESCAPES = (
    (b"<", rb"\u003c"),
    (b">", rb"\u003e"),
    (b"&", rb"\u0026"),
    ("\u2028".encode(), rb"\u2028"),
    ("\u2029".encode(), rb"\u2029"),
)
"""What Go escapes besides: none of it stands in JSON but within strings."""


def encode_body(kind: Kind, obj: Obj) -> bytes:
    """The JSON of an object to be written."""
    if kind != CONTROLLER_REVISIONS:
        return orjson.dumps(obj)
    text = orjson.dumps(obj, option=orjson.OPT_SORT_KEYS)
    for raw, escaped in _ESCAPES:
        text = text.replace(raw, escaped)
    return text
