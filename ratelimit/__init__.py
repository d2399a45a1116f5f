"""Limits: how much, for whom, and what is left.

Charge: `cost` requests of a quota for one key. Store: where counters live; it has one verb, `spend`. Limiter: the port
through which authz and the rate limit service spend. Rule: a quota and the descriptors it holds for. Look: a charge of
nothing, which only asks.

Rule 1: the arithmetic (`bucket`, `window`), the rules and the judging are pure: time is an argument.
Rule 2: charges of one request are all or nothing; a refused request changes nothing.
Rule 3: parts of a key are never joined with a separator.
"""
