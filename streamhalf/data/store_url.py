"""URLs of stores and their fsspec options: opened by obstore where it can, else by fsspec."""

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

_RETRY: Any = {"max_retries": 8, "retry_timeout": timedelta(seconds=30)}

_RENAMED = {
    "s3": {"key": "access_key_id", "secret": "secret_access_key", "token": "session_token"},
    "gs": {},
    "az": {"account_name": "account_name", "account_key": "account_key", "sas_token": "sas_key"},
}
"""By protocol that obstore is used for, its names of fsspec's options."""

_ALIASES = {"s3a": "s3", "gcs": "gs", "abfs": "az", "abfss": "az"}

_CREDENTIAL_SECONDS = 600


class _NotForObstoreError(Exception):
    """The URL or its options have no equivalent in obstore."""


@dataclass(frozen=True, slots=True)
class StoreURL:
    """The URL of a store with fsspec's options; opened in every process anew."""

    url: str
    # a cluster's logs show the arguments of tasks; secrets must not be among them
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    use_obstore: bool = True

    @property
    def protocol(self) -> str:
        """The scheme of the URL."""
        return self.url.partition("://")[0].lower()

    def open(self) -> Store:
        """Open the store for reading in this process."""
        if self.use_obstore:
            try:
                return ObjectStore(_open_obstore(self), read_only=True)
            except _NotForObstoreError:
                pass
        options = dict(self.options)
        if self.protocol in ("s3", "s3a"):
            options.setdefault("max_concurrency", 1)  # else each object's size is asked for first
        return FsspecStore.from_url(self.url, storage_options=options, read_only=True)

    def is_for_obstore(self) -> bool:
        """Return True if obstore is installed and knows this URL and all options."""
        try:
            _open_obstore(self)
        except _NotForObstoreError:
            return False
        return True


def _open_obstore(where: StoreURL) -> Any:
    protocol, url = _ALIASES.get(where.protocol, where.protocol), where.url
    if protocol not in _RENAMED or "::" in url or "?" in url or "@" in url:
        raise _NotForObstoreError(f"{protocol} is left to fsspec")
    if importlib.util.find_spec("obstore") is None:
        raise _NotForObstoreError("obstore is not installed")
    from obstore.exceptions import BaseError
    from obstore.store import from_url

    given = {name: value for name, value in where.options.items() if value not in (None, {}, "")}
    path = url.partition("://")[2].rstrip("/")
    client, arguments = dict(_CLIENT), dict[str, Any]()
    try:
        config = {known: given.pop(name) for name, known in _RENAMED[protocol].items() if name in given}
        if protocol == "s3":
            provider = _configure_s3(given, config)
            arguments = {} if provider is None else {"credential_provider": provider}
            client["allow_http"] = str(config.get("endpoint_url")).startswith("http:")
        elif protocol == "gs":
            _configure_gs(given, config)
        elif given.pop("anon", None) is True:
            config["skip_signature"] = True
        if given:
            raise _NotForObstoreError(f"options {', '.join(sorted(given))}")
        open_url: Any = from_url  # an overload for each kind of store
        return open_url(f"{protocol}://{path}", config=config, client_options=client, retry_config=_RETRY, **arguments)
    except (BaseError, ValueError, TypeError) as error:
        raise _NotForObstoreError(str(error)) from error


def _configure_gs(given: dict[str, Any], config: dict[str, Any]) -> None:
    given.pop("project", None)
    token = given.pop("token", None)
    if token == "anon":
        config["skip_signature"] = True
    elif isinstance(token, str) and token.endswith(".json"):
        config["service_account"] = token
    elif token is not None:
        raise _NotForObstoreError("a token of this kind")


def _configure_s3(given: dict[str, Any], config: dict[str, Any]) -> AwsCredentials | None:
    """Move fsspec's options into the configuration; return a provider of credentials, if any."""
    nested, profile = dict(given.pop("client_kwargs", {})), given.pop("profile", None)
    endpoint = given.pop("endpoint_url", None) or nested.pop("endpoint_url", None)
    if endpoint := endpoint or configured_endpoint(profile):
        config["endpoint_url"] = endpoint
    if given.pop("anon", False) is True:
        config["skip_signature"] = True
    given.pop("use_ssl", None)
    region, provider = nested.pop("region_name", None), None
    given |= nested
    if not {"access_key_id", "skip_signature"} & config.keys():
        provider, own_region = _aws_files(profile)
        region = region or own_region
    if region is not None:
        config["region"] = region
    return provider


def configured_endpoint(profile: str | None) -> str | None:
    """Return the S3 endpoint that the environment, or the profile of the AWS files, names.

    botocore takes a second to import, so files that name no endpoint are not given to it.
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


_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "FSSPEC_S3_ENDPOINT_URL")

_AWS_FILES = {"AWS_CONFIG_FILE": "~/.aws/config", "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials"}
"""Variables that name botocore's files, and the files without them."""


def _names_endpoint(file: tuple[str, str]) -> bool:
    variable, usual = file
    try:
        with open(os.path.expanduser(os.environ.get(variable) or usual), encoding="utf-8") as text:
            return "endpoint_url" in text.read()
    except (OSError, ValueError):
        return False


def _aws_session(profile: str | None) -> Any:
    """Return a botocore session; refuse an unknown profile."""
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


class AwsCredentials:
    """Credentials as botocore finds them: variables, files, profiles, the machine's role."""

    def __init__(self, credentials: Any) -> None:
        self._credentials = credentials

    def __call__(self) -> dict[str, Any]:
        """Return current credentials; obstore asks again when these expire."""
        found = self._credentials.get_frozen_credentials()
        return {
            "access_key_id": found.access_key,
            "secret_access_key": found.secret_key,
            "token": found.token,
            "expires_at": datetime.now(UTC) + timedelta(seconds=_CREDENTIAL_SECONDS),
        }


def _aws_files(profile: str | None) -> tuple[AwsCredentials | None, str | None]:
    """Return credentials and region of botocore; None where obstore's own search will do."""
    variables = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    if profile is None and all(map(os.environ.get, variables)):
        return None, None
    if importlib.util.find_spec("botocore") is None:
        if profile is not None:
            raise _NotForObstoreError("a profile takes botocore")
        return None, None
    session = _aws_session(profile)
    credentials = session.get_credentials()
    if credentials is None:
        raise _NotForObstoreError("no credentials")
    return AwsCredentials(credentials), session.get_config_variable("region")
