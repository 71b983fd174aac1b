"""Small web servers on loopback addresses, plain and under TLS, for tests of fetching."""

import datetime
import ipaddress
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

Answer = tuple[int, dict[str, str], bytes]


@dataclass
class Request:
    """What a server was sent."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    sni: str | None = None


@dataclass
class Web:
    """A running server."""

    address: str
    port: int
    requests: list[Request] = field(default_factory=list)
    connections: int = 0


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away in the middle is what some tests are about."""


@contextmanager
def serving(
    answer: Callable[[Request], Answer],
    *,
    address: str = "127.0.0.1",
    port: int = 0,
    tls: ssl.SSLContext | None = None,
) -> Iterator[Web]:
    """A server that answers each request with what `answer` returns."""
    names: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            web.connections += 1

        def respond(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            sni = names[-1] if names else None
            request = Request(self.command, self.path, dict(self.headers.items()), body, sni)
            web.requests.append(request)
            status, headers, content = answer(request)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if "Content-Length" not in headers:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_HEAD = respond  # noqa: N815 - the names that http.server calls

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
            pass

    server = _Server((address, port), Handler)
    web = Web(address=address, port=server.server_port)
    if tls is not None:

        def note(_socket: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> None:
            names.append(name)

        tls.sni_callback = note  # type: ignore[assignment]
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
    thread.start()
    try:
        yield web
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def certify(folder: Path, *names: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A new authority, and a certificate of it for `names`: the contexts of a client and of a server."""
    now = datetime.datetime.now(datetime.UTC)
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Test Authority")])

    def built(
        subject: x509.Name, public: ec.EllipticCurvePublicKey, *extensions: tuple[x509.ExtensionType, bool]
    ) -> x509.Certificate:
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(hours=1))
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical=critical)
        return builder.sign(authority_key, hashes.SHA256())

    authority = built(
        issuer, authority_key.public_key(), (x509.BasicConstraints(ca=True, path_length=0), True)
    )
    alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
    leaf = built(
        x509.Name([]),
        key.public_key(),
        (alternatives, True),
        (x509.BasicConstraints(ca=False, path_length=None), True),
    )
    chain = folder / f"{names[0].replace(':', '_')}.pem"
    chain.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        + leaf.public_bytes(serialization.Encoding.PEM)
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(chain)
    client = ssl.create_default_context(cadata=authority.public_bytes(serialization.Encoding.PEM).decode())
    return client, server


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
