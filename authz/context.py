"""The caller context: what the gateway knows of a caller, signed for one upstream, for half a minute.

Compact JWS, EdDSA, `typ` "wardgate-context+jwt". Members: iss, aud (the route's audience), iat, exp, route, kind and,
where there is something to say, client_id, tier, sub, tenant, scopes, roles, psd2_roles, organisation, request_id. A
route that asks for a context per request gets two more, `method` and `path_sha256`, and nothing shared: elsewhere one
context serves all requests of one credential on one route within one second, and `request_id` is that of the first.
"""

import hashlib
import json

from authz.evidence import Evidence
from authz.ring import RingKey, encode_segment
from model.instant import SECOND
from model.snapshot import Context

Members = dict[str, object]

_LISTS = ("scopes", "roles", "psd2_roles")
_LONGEST_TEXT = 128
"""Characters of a name that is written out where space is short; a longer one is written as its digest."""
_SIGNATURE = 86
"""Characters of an Ed25519 signature in base64url."""


def mint_context(evidence: Evidence) -> str:
    """Mint the context of a request, or take the one that was minted for the same caller in this second."""
    if evidence.plan.route.context_per_request:
        return _sign(evidence, describe_caller(evidence) | describe_request(evidence))
    credential = evidence.credential
    application = evidence.application.record.id if evidence.application is not None else ""
    text = credential.text if credential is not None else ""
    key = (text, application, evidence.request.certificate, evidence.plan.route.id)
    second = evidence.now // SECOND
    contexts = evidence.resident.contexts
    minted = contexts.get(key)
    if minted is not None and minted[0] == second:
        return minted[1]
    context = _sign(evidence, describe_caller(evidence))
    contexts.put(key, (second, context))
    return context


def describe_caller(evidence: Evidence) -> Members:
    """Say who calls, and where; empty members ones are left out."""
    settings = evidence.resident.snapshot.context
    caller, identity = evidence.caller, evidence.identity
    issued = evidence.now // SECOND
    members: Members = {
        "iss": settings.issuer,
        "aud": evidence.plan.route.audience,
        "iat": issued,
        "exp": issued + settings.lifetime // SECOND,
        "route": evidence.plan.route.id,
        "kind": caller.kind,
        "client_id": caller.client_id,
        "tier": caller.tier,
        "sub": caller.subject,
        "tenant": caller.tenant,
        "scopes": sorted(evidence.scopes),
        "roles": sorted(evidence.roles),
        "psd2_roles": sorted(identity.psd2_roles) if identity is not None else [],
        "organisation": caller.organisation,
        "request_id": evidence.request.id,
    }
    return {name: value for name, value in members.items() if value}


def describe_request(evidence: Evidence) -> Members:
    """Write the members that bind a context to one request: its method and the digest of its path and query."""
    request = evidence.request
    return {"method": request.method, "path_sha256": digest_text(request.path)}


def digest_text(text: str) -> str:
    """Digest a text's UTF-8 by SHA-256, base64url without padding; lone surrogates are kept as they are."""
    return encode_segment(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())


def _sign(evidence: Evidence, members: Members) -> str:
    key = evidence.resident.live.ring.signer(evidence.now)
    return key.sign(fit_members(members, key, evidence.resident.snapshot.context))


def fit_members(members: Members, key: RingKey, settings: Context) -> bytes:
    """Write the payload so that the whole context stays within its size (bug report H-17).

    Lists go first, longest name first in what they cost: each becomes the digest of its elements joined by spaces
    (`scopes_sha256`), so that an upstream that knows what to expect can still compare. Then long names become digests.
    """
    room = (settings.max_size - len(key.header) - _SIGNATURE - 2) * 3 // 4
    payload = _write(members)
    if len(payload) <= room:
        return payload
    members = dict(members)
    for name in sorted((name for name in _LISTS if name in members), key=lambda name: -len(_write(members[name]))):
        values = members.pop(name)
        members[f"{name}_sha256"] = digest_text(" ".join(values) if isinstance(values, list) else "")
        payload = _write(members)
        if len(payload) <= room:
            return payload
    return _write({name: _shorten(value) for name, value in members.items()})


def _shorten(value: object) -> object:
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        return "sha256:" + digest_text(value)
    return value


def _write(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii")
