"""What is sent says the same in whatever spelling; only of a revision the spelling matters."""

import orjson

from fencepost.api.names import CONTROLLER_REVISIONS, DAGS
from fencepost.kube.bodies import encode_body

OBJECT = {"metadata": {"name": "r"}, "data": {"b": "1 > 0 && 0 < 1\u2028é\u2029", "a": [2.5, 1]}}


def test_a_revision_is_sent_as_go_would_write_it() -> None:
    text = encode_body(CONTROLLER_REVISIONS, OBJECT)
    want = r'{"data":{"a":[2.5,1],"b":"1 \u003e 0 \u0026\u0026 0 \u003c 1\u2028é\u2029"},"metadata":{"name":"r"}}'
    assert text.decode() == want
    assert orjson.loads(text) == OBJECT


def test_all_else_is_sent_as_it_is() -> None:
    assert encode_body(DAGS, OBJECT) == orjson.dumps(OBJECT)
