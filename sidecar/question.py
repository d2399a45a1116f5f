"""What may be asked of `wardgate explain` and of the admin side."""

from collections.abc import Sequence

FACTS = frozenset(("route", "client", "tier", "tenant", "subject", "organisation", "address"))
"""What a question about a document may say of its caller."""

RateQuestion = tuple[str, Sequence[str]]
"""A domain, and descriptors as they are written on a command line: see `explain.read_descriptor`."""
