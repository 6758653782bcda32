"""From a URL and its options to what reads it: obstore where it can, fsspec else.

Options are those that fsspec takes. What cannot be said to obstore, and storage that obstore does
not reach, is left to fsspec.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from zarr.abc.store import Store
from zarr.storage import FsspecStore, ObjectStore

from streamhalf.errors import UsageError

_CLIENT: Any = {"connect_timeout": "5s", "read_timeout": "30s", "timeout": "3600s"}
"""A line that is silent for half a minute is dead; how long an answer takes depends on its size."""

_ONCE: Any = {"max_retries": 0}
"""What fails is tried again by whoever asked, who counts and says so."""

_S3_KEYS = {"key": "access_key_id", "secret": "secret_access_key", "token": "session_token"}
_AZURE_KEYS = {"account_name": "account_name", "account_key": "account_key", "sas_token": "sas_key"}
_CREDENTIAL_SECONDS = 600
_CREDENTIAL_VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


class NotForObstoreError(Exception):
    """The URL or its options are beyond what obstore is told here."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a store is; opened in every process anew, with that process's own credentials."""

    url: str
    # logs of a cluster show a task's arguments; secrets are no part of them
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    use_obstore: bool = True

    def open(self) -> Store:
        """What reads it in this process."""
        if self.use_obstore:
            try:
                return ObjectStore(_obstore(self.url, self.options), read_only=True)
            except NotForObstoreError:
                pass
        return self.open_fsspec()

    def open_fsspec(self) -> Store:
        """What reads it by way of fsspec."""
        options = dict(self.options)
        if self.protocol in ("s3", "s3a"):
            options.setdefault("max_concurrency", 1)  # else every object's size is asked for first
        return FsspecStore.from_url(self.url, storage_options=options, read_only=True)

    @property
    def protocol(self) -> str:
        """What the URL begins with."""
        return self.url.partition("://")[0].lower()


def is_for_obstore(origin: Origin) -> bool:
    """Whether obstore is there and can be told of this URL and these options."""
    try:
        _obstore(origin.url, origin.options)
    except NotForObstoreError:
        return False
    return True


def _obstore(url: str, options: Mapping[str, Any]) -> Any:
    """An obstore store, or the reason against it."""
    protocol, mark, path = url.partition("://")
    build = _BUILDERS.get(protocol.lower())
    if build is None or not mark or "::" in url or "?" in url or "@" in url:
        raise NotForObstoreError(f"{protocol} is left to fsspec")
    if importlib.util.find_spec("obstore") is None:
        raise NotForObstoreError("obstore is not installed")
    from obstore.exceptions import BaseError

    given = {name: value for name, value in options.items() if value not in (None, {}, "")}
    try:
        return build(path.rstrip("/"), given)
    except (BaseError, ValueError, TypeError) as error:
        raise NotForObstoreError(str(error)) from error


def _s3(path: str, options: dict[str, Any]) -> Any:
    from obstore.store import S3Store

    bucket, _, prefix = path.partition("/")
    client = dict(options.pop("client_kwargs", {}))
    profile = options.pop("profile", None)
    endpoint = (
        options.pop("endpoint_url", None)
        or client.pop("endpoint_url", None)
        or configured_endpoint(profile)
    )
    region = client.pop("region_name", None)
    config: Any = {} if endpoint is None else {"endpoint_url": endpoint}
    if options.pop("anon", False) is True:
        config["skip_signature"] = True
    for name, known in _S3_KEYS.items():
        if name in options:
            config[known] = options.pop(name)
    options.pop("use_ssl", None)
    _refuse_left({**options, **client})
    provider: Any = None
    if "access_key_id" not in config and "skip_signature" not in config:
        provider, own_region = _aws_files(profile)
        region = region or own_region
    if region is not None:
        config["region"] = region
    client_options: Any = {**_CLIENT, "allow_http": str(endpoint).startswith("http:")}
    return S3Store(
        bucket,
        prefix=prefix or None,
        config=config,
        client_options=client_options,
        retry_config=_ONCE,
        credential_provider=provider,
    )


def configured_endpoint(profile: str | None) -> str | None:
    """The S3 server that environment variables name, or the profile of the AWS files.

    Files that name no server are left to themselves: botocore takes a second to import.
    """
    if named := next(filter(None, map(os.environ.get, _ENDPOINT_VARIABLES)), None):
        return named
    if not any(map(_names_endpoint, _AWS_FILES.items())):
        return None
    if importlib.util.find_spec("botocore") is None:
        return None
    session = _aws_session(profile)
    own = session.get_scoped_config()
    services = session.full_config.get("services", {}).get(own.get("services"), {})
    of_s3 = services.get("s3", {}) if isinstance(services, dict) else {}
    found = (of_s3 if isinstance(of_s3, dict) else {}).get("endpoint_url")
    ignored = session.get_config_variable("ignore_configured_endpoint_urls")
    return None if ignored else found or own.get("endpoint_url")


def _names_endpoint(file: tuple[str, str]) -> bool:
    variable, usual = file
    try:
        with open(os.path.expanduser(os.environ.get(variable) or usual), encoding="utf-8") as text:
            return "endpoint_url" in text.read()
    except (OSError, ValueError):
        return False


def _aws_session(profile: str | None) -> Any:
    """A botocore session; refused where its profile is in none of the AWS files."""
    from botocore.exceptions import ProfileNotFound
    from botocore.session import Session

    session = Session(profile=profile)
    try:
        session.get_scoped_config()
    except ProfileNotFound as error:
        known = ", ".join(session.available_profiles) or "none"
        named = profile or os.environ.get("AWS_PROFILE") or os.environ.get("AWS_DEFAULT_PROFILE")
        raise UsageError(
            f"profile: {named!r} is in none of the AWS files (found: {known}); name another "
            "(storage option profile, AWS_PROFILE), or add it with `aws configure`"
        ) from error
    return session


_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "FSSPEC_S3_ENDPOINT_URL")
"""Environment variables that name the server."""

_AWS_FILES = {
    "AWS_CONFIG_FILE": "~/.aws/config",
    "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials",
}
"""Where botocore looks, by the variable that says otherwise."""


class AwsFiles:
    """Credentials where botocore finds them: variables, files, profiles, the machine's role."""

    def __init__(self, credentials: Any) -> None:
        self._credentials = credentials

    def __call__(self) -> dict[str, Any]:
        """What obstore asks for when the last answer has expired."""
        found = self._credentials.get_frozen_credentials()
        return {
            "access_key_id": found.access_key,
            "secret_access_key": found.secret_key,
            "token": found.token,
            "expires_at": datetime.now(UTC) + timedelta(seconds=_CREDENTIAL_SECONDS),
        }


def _aws_files(profile: str | None) -> tuple[AwsFiles | None, str | None]:
    """Credentials and region as botocore has them; without botocore, obstore's own search.

    What variables say obstore reads itself: botocore takes a second to import.
    """
    if profile is None and all(map(os.environ.get, _CREDENTIAL_VARIABLES)):
        return None, None
    if importlib.util.find_spec("botocore") is None:
        if profile is not None:
            raise NotForObstoreError("a profile takes botocore")
        return None, None
    session = _aws_session(profile)
    credentials = session.get_credentials()
    if credentials is None:
        raise NotForObstoreError("no credentials")
    return AwsFiles(credentials), session.get_config_variable("region")


def _gcs(path: str, options: dict[str, Any]) -> Any:
    from obstore.store import GCSStore

    bucket, _, prefix = path.partition("/")
    config: Any = {}
    token = options.pop("token", None)
    if token == "anon":
        config["skip_signature"] = True
    elif isinstance(token, str) and token.endswith(".json"):
        config["service_account"] = token
    elif token is not None:
        raise NotForObstoreError("a token of this kind")
    options.pop("project", None)
    _refuse_left(options)
    return GCSStore(
        bucket, prefix=prefix or None, config=config, client_options=_CLIENT, retry_config=_ONCE
    )


def _azure(path: str, options: dict[str, Any]) -> Any:
    from obstore.store import AzureStore

    container, _, prefix = path.partition("/")
    config: Any = {
        known: options.pop(name) for name, known in _AZURE_KEYS.items() if name in options
    }
    if options.pop("anon", None) is True:
        config["skip_signature"] = True
    _refuse_left(options)
    return AzureStore(
        container, prefix=prefix or None, config=config, client_options=_CLIENT, retry_config=_ONCE
    )


def _http(path: str, options: dict[str, Any]) -> Any:
    return _web(f"http://{path}", options)


def _https(path: str, options: dict[str, Any]) -> Any:
    return _web(f"https://{path}", options)


def _web(url: str, options: dict[str, Any]) -> Any:
    from obstore.store import HTTPStore

    _refuse_left(options)
    client_options: Any = {**_CLIENT, "allow_http": url.startswith("http:")}
    return HTTPStore.from_url(url, client_options=client_options, retry_config=_ONCE)


def _refuse_left(options: Mapping[str, Any]) -> None:
    if options:
        raise NotForObstoreError(f"options {', '.join(sorted(options))}")


_BUILDERS = {
    "s3": _s3,
    "s3a": _s3,
    "gs": _gcs,
    "gcs": _gcs,
    "az": _azure,
    "abfs": _azure,
    "abfss": _azure,
    "http": _http,
    "https": _https,
}
