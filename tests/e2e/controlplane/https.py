"""One GET at a time over TLS with a client certificate: enough to ask a component whether it is ready."""

from __future__ import annotations

import ssl
import urllib.error
import urllib.request
from pathlib import Path

TIMEOUT_S = 2.0


class Https:
    """A server and the identity that we show it. No proxy is used, whatever the environment says."""

    def __init__(self, url: str, authority: Path, certificate: Path, key: Path) -> None:
        self._url = url
        context = ssl.create_default_context(cafile=str(authority))
        context.load_cert_chain(str(certificate), str(key))
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )

    def get(self, path: str, timeout_s: float = TIMEOUT_S) -> tuple[int, str]:
        """Status and body, also of a refusal; raises OSError where no answer comes."""
        try:
            with self._opener.open(self._url + path, timeout=timeout_s) as answer:
                return answer.status, answer.read().decode(errors="replace")
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, refusal.read().decode(errors="replace")
