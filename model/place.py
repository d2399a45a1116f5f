"""Places of concurrent limits as text, on their way through the proxy: from who took them to who keeps them.

The proxy carries the text in its metadata, where no client can write. It holds no secret: keys are names.
"""

import json
from collections.abc import Iterable

from model.quota import Charge, Quota

METADATA = "wardgate.places"
"""The name under which the text stands in the metadata of a decision."""


def write_places(charges: Iterable[Charge]) -> str:
    """Write the charges that took places, as JSON."""
    return json.dumps(
        [
            (quota.name, quota.count, quota.period, quota.enforced, charge.key, charge.principal, charge.holder)
            for charge in charges
            if (quota := charge.quota).concurrent
        ],
        separators=(",", ":"),
    )


def read_places(text: str) -> tuple[Charge, ...]:
    """Read what `write_places` wrote: charges that name the same places. Raises ValueError for anything else."""
    try:
        return tuple(
            Charge(
                Quota(name, count, period, count, enforced=enforced, concurrent=True),
                tuple(key),
                principal=principal,
                holder=holder,
            )
            for name, count, period, enforced, key, principal, holder in json.loads(text)
        )
    except TypeError as error:
        raise ValueError("no places") from error
