"""Private keys in files that nobody else can read. The only module here that touches a disk."""

import json
import os
import stat
from pathlib import Path
from typing import Final

from authz_client.capabilities.keys import BadKey, SigningKey, signing_key_from_jwk, signing_key_from_pem
from authz_client.capabilities.strict_json import NotStrictJson, loads

_MAX_BYTES: Final = 8192


def write_key(path: Path, key: SigningKey) -> None:
    """Write `key` into a new file of mode 0600: a JWK where `path` ends in `.json` or `.jwk`, else PEM.

    Never writes over a file: raises `FileExistsError`. A file that could not be written whole is removed.
    """
    if path.suffix in (".json", ".jwk"):
        data = json.dumps(key.private_jwk).encode() + b"\n"
    else:
        data = key.private_pem
    # The mode at creation, not after it: in between anybody could have opened the file.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def read_key(path: Path) -> SigningKey:
    """The key in `path`, JWK or PEM. Raises `BadKey`, also when others than the owner may read the file."""
    # Opening a pipe would wait for whoever writes into it, before anything could be said of it.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise BadKey(f"`{path}` is no regular file")
        if status.st_mode & 0o077:
            raise BadKey(f"`{path}` can be read or written by others, run `chmod 600` on it")
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise BadKey(f"`{path}` is no key: over {_MAX_BYTES} bytes")
    if not data.lstrip().startswith(b"{"):
        return signing_key_from_pem(data)
    try:
        return signing_key_from_jwk(loads(data))
    except NotStrictJson:
        raise BadKey(f"`{path}` holds no JWK") from None
