"""What goes out: a closed family of two values, `Allow` and `Deny`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from model.problem import Extension
from model.quota import Charge
from model.reason import Reason

Header = tuple[str, str]


@dataclass(slots=True)
class Caller:
    """Who was recognised, for the context, the log and the metrics; "" where unknown. Never holds a credential."""

    kind: str = ""
    client_id: str = ""
    subject: str = ""
    tier: str = ""
    tenant: str = ""
    organisation: str = ""


@dataclass(slots=True)
class Allow:
    """The request may pass.

    `set_headers` overwrite what the request carries, `remove_headers` and `remove_query` go before the upstream sees
    it, `answer_headers` are added to the response whatever the upstream says. `places` are the charges that hold
    places of concurrent limits until the exchange ends.
    """

    caller: Caller
    set_headers: tuple[Header, ...] = ()
    remove_headers: tuple[str, ...] = ()
    remove_query: tuple[str, ...] = ()
    answer_headers: tuple[Header, ...] = ()
    places: tuple[Charge, ...] = ()


@dataclass(slots=True)
class Deny:
    """The request is refused, for one reason.

    `challenges` are whole WWW-Authenticate values, one header line each. `retry_after` is in whole seconds and
    overrides the reason's default. `answer_headers` go out with the refusal (rate limit fields, for instance).
    """

    reason: Reason
    detail: str | None = None
    caller: Caller = field(default_factory=Caller)
    challenges: tuple[str, ...] = ()
    retry_after: int | None = None
    answer_headers: tuple[Header, ...] = ()
    extensions: Mapping[str, Extension] | None = None


Verdict = Allow | Deny
