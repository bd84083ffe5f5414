"""The only place that draws an identity by chance."""

import secrets

from fencepost.core.names import NONCE_LENGTH

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"


def nonce() -> str:
    """As many characters as `core.names.worker_name` asks for, lower case letters and digits, fit for a name's end."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(NONCE_LENGTH))
