"""Where `authz decisions` finds records: this machine's store, or a service over HTTP."""

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import httpx
from sqlalchemy import Select

from authz.cli.data_location import add_data_arguments, read_location
from authz.cli.service_client import service_client
from authz.config import DEFAULT_TENANT
from authz.core.log_chain import rfc3339_ms
from authz.errors import ConfigError, NotFound, StoreUnavailable
from authz.model.record import EventQuery, StoredEvent
from authz.store.database import Database, open_session
from authz.store.event_search import build_find_event, build_search, newest, read_event
from authz.store.postgres_url import PostgresUrl

MAX_LIMIT = 500


class DecisionSource(Protocol):
    """Reads the decision log of one tenant."""

    def search(self, query: EventQuery) -> list[Mapping[str, Any]]:
        """Records, newest first. Raises `StoreUnavailable`."""
        ...

    def find(self, tenant: str, decision_id: str) -> Mapping[str, Any]:
        """The record that made this decision. Raises `NotFound` and `StoreUnavailable`."""
        ...


def add_source_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare where records come from."""
    add_data_arguments(parser)
    parser.add_argument(
        "--tenant", default=DEFAULT_TENANT, metavar="NAME", help=f"whose log; default: {DEFAULT_TENANT}"
    )
    parser.add_argument("--url", help="ask a running service instead, such as http://localhost:8700")
    parser.add_argument(
        "--key-env",
        metavar="NAME",
        help="with --url: the environment variable that holds a key with the role `audit`",
    )


def source_of(args: argparse.Namespace) -> DecisionSource:
    """The source that the options name. Raises `ConfigError`."""
    if args.url is None:
        if args.key_env is not None:
            raise ConfigError("`--key-env` is the key for `--url`; name the service too")
        return LocalDecisions(read_location(args).database)
    if args.data_dir is not None or args.database is not None or args.tenant != DEFAULT_TENANT:
        raise ConfigError(
            "`--url` asks a service, whose key says which tenant's log it is; leave the rest out"
        )
    key = os.environ.get(args.key_env or "")
    if not key:
        raise ConfigError("name the variable that holds the key: `--key-env AUTHZ_AUDIT_KEY`")
    return RemoteDecisions(args.url, key)


class LocalDecisions:
    """The store of this machine's configuration, read while a server may write it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def search(self, query: EventQuery) -> list[Mapping[str, Any]]:
        """See `DecisionSource.search`."""
        position = "strpos" if isinstance(self._database, PostgresUrl) else "instr"
        return [_record(event) for event in self._fetch(build_search(query, position_function=position))]

    def find(self, tenant: str, decision_id: str) -> Mapping[str, Any]:
        """See `DecisionSource.find`."""
        found = newest(self._fetch(build_find_event(tenant, decision_id)))
        if found is None:
            raise _absent(decision_id)
        return _record(found)

    def _fetch(self, statement: Select[Any]) -> Sequence[StoredEvent]:
        with open_session(self._database, "read") as session:
            return [read_event(row) for row in session.fetch(statement)]


class RemoteDecisions:
    """A service's `GET /decisions`."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url.rstrip("/")
        self._key = key

    def search(self, query: EventQuery) -> list[Mapping[str, Any]]:
        """See `DecisionSource.search`; pages are put together."""
        names = {"trace_id": "trace_id", "agent": "agent", "user": "on_behalf_of"}
        names |= {name: name for name in ("tool", "rule", "effect", "type")}
        asked = {wire: getattr(query, name) for name, wire in names.items() if getattr(query, name)}
        for name in ("since", "until"):
            moment = getattr(query, f"{name}_ms")
            if moment is not None:
                asked[name] = rfc3339_ms(moment)
        asked["limit"] = str(min(query.limit, MAX_LIMIT))
        answer = self._get("/decisions", asked)
        return [entry["record"] for entry in answer["records"]]

    def find(self, tenant: str, decision_id: str) -> Mapping[str, Any]:
        """See `DecisionSource.find`; the tenant is the key's."""
        if not decision_id.isalnum():
            raise _absent(decision_id)
        found: Mapping[str, Any] = self._get(f"/decisions/{decision_id}", {})["record"]
        return found

    def _get(self, path: str, asked: Mapping[str, str]) -> Any:
        try:
            with service_client(self._url, self._key) as client:
                response = client.get(self._url + path, params=asked)
            body = json.loads(response.content)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            what = type(error).__name__
            raise StoreUnavailable(f"`{self._url}` gave no answer that can be read: {what}") from None
        if response.status_code == httpx.codes.OK:
            return body
        detail = body.get("detail") if isinstance(body, dict) else None
        message = f"`{self._url}` answered {response.status_code}: {detail or response.reason_phrase}"
        raise (
            NotFound(message) if response.status_code == httpx.codes.NOT_FOUND else StoreUnavailable(message)
        )


def _record(event: StoredEvent) -> Mapping[str, Any]:
    record: Mapping[str, Any] = json.loads(event.text)
    return record


def _absent(decision_id: str) -> NotFound:
    return NotFound(f"there is no decision `{decision_id[:80]}`; `authz decisions search` lists them")
