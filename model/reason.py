"""Why a request was refused: one closed enum and one table, from which answers, metrics and docs/reasons.md all come.

Two reasons may share one public `slug`: the log and the metric then tell them apart and the client cannot, as for a
bad signature and an unknown key (RFC 8725 section 3.2 and pitfall 53: no oracle in errors).
"""

from dataclasses import dataclass, replace
from enum import StrEnum, unique
from typing import Literal

Fault = Literal["client", "gateway", "upstream"]

IANA = "https://iana.org/assignments/http-problem-types#"
OWN = "urn:problem-type:wardgate:"


@unique
class Reason(StrEnum):
    """Each way in which wardgate, or Envoy on its behalf, refuses a request."""

    # The request itself
    REQUEST_MALFORMED = "request-malformed"
    REQUEST_TOO_LARGE = "request-too-large"
    HEADERS_TOO_LARGE = "headers-too-large"
    URL_TOO_LONG = "url-too-long"
    REQUEST_TIMEOUT = "request-timeout"
    HEADER_REPEATED = "header-repeated"
    CREDENTIALS_AMBIGUOUS = "credentials-ambiguous"
    ROUTE_UNKNOWN = "route-unknown"
    ROUTE_UNLABELLED = "route-unlabelled"
    METHOD_REFUSED = "method-refused"
    # The credential
    CREDENTIAL_MISSING = "credential-missing"
    CREDENTIAL_KIND_REFUSED = "credential-kind-refused"
    # The client certificate
    CERTIFICATE_MISSING = "certificate-missing"
    CERTIFICATE_MALFORMED = "certificate-malformed"
    CERTIFICATE_UNTRUSTED = "certificate-untrusted"
    CERTIFICATE_WEAK = "certificate-weak"
    CERTIFICATE_EXPIRED = "certificate-expired"
    CERTIFICATE_NOT_YET_VALID = "certificate-not-yet-valid"
    CERTIFICATE_USAGE = "certificate-usage"
    CERTIFICATE_STATEMENTS_MISSING = "certificate-statements-missing"
    CERTIFICATE_STATEMENTS_MALFORMED = "certificate-statements-malformed"
    CERTIFICATE_NOT_QUALIFIED = "certificate-not-qualified"
    CERTIFICATE_TYPE = "certificate-type"
    CERTIFICATE_POLICY = "certificate-policy"
    CERTIFICATE_ROLES_MISSING = "certificate-roles-missing"
    CERTIFICATE_ROLE_MISMATCH = "certificate-role-mismatch"
    CERTIFICATE_AUTHORITY_ID = "certificate-authority-id"
    CERTIFICATE_ORGANISATION_ID = "certificate-organisation-id"
    CERTIFICATE_REVOKED = "certificate-revoked"
    CERTIFICATE_STATUS_UNKNOWN = "certificate-status-unknown"
    CERTIFICATE_BLOCKED = "certificate-blocked"
    # JWT and other tokens
    TOKEN_MALFORMED = "token-malformed"
    TOKEN_TOO_LARGE = "token-too-large"
    TOKEN_ALGORITHM = "token-algorithm"
    TOKEN_CRITICAL = "token-critical"
    TOKEN_TYPE = "token-type"
    TOKEN_SIGNATURE = "token-signature"
    TOKEN_KEY_UNKNOWN = "token-key-unknown"
    TOKEN_KEY_EMBEDDED = "token-key-embedded"
    TOKEN_ISSUER = "token-issuer"
    TOKEN_AUDIENCE = "token-audience"
    TOKEN_CLAIM_MALFORMED = "token-claim-malformed"
    TOKEN_CLAIM_MISSING = "token-claim-missing"
    TOKEN_EXPIRED = "token-expired"
    TOKEN_NOT_YET_VALID = "token-not-yet-valid"
    TOKEN_LIFETIME = "token-lifetime"
    TOKEN_INACTIVE = "token-inactive"
    TOKEN_REPLAYED = "token-replayed"
    TOKEN_UNBOUND = "token-unbound"
    BINDING_MISMATCH = "binding-mismatch"
    BINDING_UNSUPPORTED = "binding-unsupported"
    PROOF_MISSING = "proof-missing"
    PROOF_INVALID = "proof-invalid"
    PROOF_REPLAYED = "proof-replayed"
    API_KEY_UNKNOWN = "api-key-unknown"
    API_KEY_EXPIRED = "api-key-expired"
    CLIENT_UNKNOWN = "client-unknown"
    CLIENT_MISMATCH = "client-mismatch"
    CREDENTIAL_REVOKED = "credential-revoked"
    # Requirements
    SCOPE_MISSING = "scope-missing"
    ROLE_MISSING = "role-missing"
    PSD2_ROLE_MISSING = "psd2-role-missing"
    TIER_REFUSED = "tier-refused"
    CLAIM_REFUSED = "claim-refused"
    ADDRESS_REFUSED = "address-refused"
    # Limits
    ADDRESS_FLOOD = "address-flood"
    QUOTA_EXCEEDED = "quota-exceeded"
    STREAMS_EXCEEDED = "streams-exceeded"
    # Ours, or the upstream's
    OVERLOADED = "overloaded"
    NOT_READY = "not-ready"
    INTERNAL = "internal"
    IDENTITY_UNAVAILABLE = "identity-unavailable"
    REVOCATION_UNAVAILABLE = "revocation-unavailable"
    LIMITER_UNAVAILABLE = "limiter-unavailable"
    POLICY_UNAVAILABLE = "policy-unavailable"
    UPSTREAM_BREAKER_OPEN = "upstream-breaker-open"
    UPSTREAM_UNREACHABLE = "upstream-unreachable"
    UPSTREAM_TIMEOUT = "upstream-timeout"
    UPSTREAM_OVERLOADED = "upstream-overloaded"
    UPSTREAM_INVALID = "upstream-invalid"


@dataclass(frozen=True, slots=True)
class Row:
    """What a reason means to the outside.

    `slug` is the public name in `type`; `challenge` the `error` of a WWW-Authenticate challenge ("" for a challenge
    without one, None for no challenge; RFC 6750 section 3.1); `berlin` the Berlin Group code; `retry_after` the
    default wait in whole seconds where the refusal itself knows none.
    """

    status: int
    title: str
    detail: str
    slug: str
    fault: Fault = "client"
    challenge: str | None = None
    berlin: str | None = None
    retry_after: int | None = None
    type_base: str = OWN

    @property
    def type(self) -> str:
        """The `type` member of the RFC 9457 document: at most 70 characters, as Berlin Group demands."""
        return self.type_base + self.slug


def _client(status: int, title: str, detail: str, berlin: str | None = None, slug: str = "") -> Row:
    return Row(status, title, detail, slug, berlin=berlin)


def _certificate(detail: str, berlin: str = "CERTIFICATE_INVALID") -> Row:
    return Row(401, "Client certificate refused", detail, "", berlin=berlin)


def _token(detail: str, berlin: str = "TOKEN_INVALID", error: str = "invalid_token", slug: str = "") -> Row:
    return Row(401, "Credential refused", detail, slug, challenge=error, berlin=berlin)


def _forbidden(title: str, detail: str, berlin: str | None = None, error: str | None = None) -> Row:
    return Row(403, title, detail, "", challenge=error, berlin=berlin)


def _away(status: int, title: str, detail: str, fault: Fault = "gateway", retry: int | None = 5) -> Row:
    return Row(status, title, detail, "", fault=fault, retry_after=retry)


# A row without a slug takes the reason's own value as its public name.
_ROWS: dict[Reason, Row] = {
    Reason.REQUEST_MALFORMED: _client(400, "Bad request", "The request is not well-formed.", "FORMAT_ERROR"),
    Reason.REQUEST_TOO_LARGE: _client(413, "Request body too large", "The body is larger than this route accepts."),
    Reason.HEADERS_TOO_LARGE: _client(
        431, "Header fields too large", "The header fields are larger than the gateway accepts."
    ),
    Reason.URL_TOO_LONG: _client(414, "URI too long", "The path and query are longer than the gateway accepts."),
    Reason.REQUEST_TIMEOUT: _client(408, "Request timeout", "The request did not arrive in time."),
    Reason.HEADER_REPEATED: _client(
        400, "Repeated header field", "A header field that may stand once was sent more than once."
    ),
    Reason.CREDENTIALS_AMBIGUOUS: Row(
        400,
        "More than one credential",
        "A request carries exactly one credential.",
        "credentials-ambiguous",
        challenge="invalid_request",
    ),
    Reason.ROUTE_UNKNOWN: _client(404, "No such route", "No route of this gateway fits the request."),
    Reason.ROUTE_UNLABELLED: _client(
        404, "No such route", "No route of this gateway fits the request.", slug="route-unknown"
    ),
    Reason.METHOD_REFUSED: _client(
        405, "Method not allowed", "This route does not serve the method.", "SERVICE_INVALID"
    ),
    Reason.CREDENTIAL_MISSING: Row(
        401,
        "Credential missing",
        "This route needs a credential and the request has none.",
        "credential-missing",
        challenge="",
        berlin="TOKEN_INVALID",
    ),
    Reason.CREDENTIAL_KIND_REFUSED: Row(
        401,
        "Credential refused",
        "This kind of credential is not accepted here.",
        "credential-kind-refused",
        challenge="",
        berlin="TOKEN_INVALID",
    ),
    Reason.CERTIFICATE_MISSING: _certificate("This route needs a client certificate.", "CERTIFICATE_MISSING"),
    Reason.CERTIFICATE_MALFORMED: _certificate("The client certificate cannot be parsed."),
    Reason.CERTIFICATE_UNTRUSTED: _certificate("The client certificate does not chain to a trusted issuer."),
    Reason.CERTIFICATE_WEAK: _certificate(
        "The client certificate, or one above it, uses a key or a digest that is too weak."
    ),
    Reason.CERTIFICATE_EXPIRED: _certificate("The client certificate has expired.", "CERTIFICATE_EXPIRED"),
    Reason.CERTIFICATE_NOT_YET_VALID: _certificate("The client certificate is not valid yet."),
    Reason.CERTIFICATE_USAGE: _certificate("The client certificate is not meant for TLS client authentication."),
    Reason.CERTIFICATE_STATEMENTS_MISSING: _certificate("The client certificate carries no PSD2 qcStatement."),
    Reason.CERTIFICATE_STATEMENTS_MALFORMED: _certificate("The qcStatements of the client certificate are malformed."),
    Reason.CERTIFICATE_NOT_QUALIFIED: _certificate("The client certificate is not marked as qualified (QcCompliance)."),
    Reason.CERTIFICATE_TYPE: _certificate(
        "The client certificate is not a website authentication certificate (QcType web)."
    ),
    Reason.CERTIFICATE_POLICY: _certificate("The client certificate names none of the accepted certificate policies."),
    Reason.CERTIFICATE_ROLES_MISSING: _certificate("The PSD2 statement of the client certificate names no known role."),
    Reason.CERTIFICATE_ROLE_MISMATCH: _certificate(
        "A PSD2 role of the client certificate has a name that does not fit its OID."
    ),
    Reason.CERTIFICATE_AUTHORITY_ID: _certificate("The national authority of the PSD2 statement is malformed."),
    Reason.CERTIFICATE_ORGANISATION_ID: _certificate(
        "The organizationIdentifier is missing, malformed or names another national authority than the PSD2 statement."
    ),
    Reason.CERTIFICATE_REVOKED: _certificate("The client certificate has been revoked.", "CERTIFICATE_REVOKED"),
    Reason.CERTIFICATE_STATUS_UNKNOWN: _certificate("The revocation status of the client certificate is not known."),
    Reason.CERTIFICATE_BLOCKED: _certificate(
        "The client certificate is blocked at this gateway.", "CERTIFICATE_BLOCKED"
    ),
    Reason.TOKEN_MALFORMED: _token("The token is not a well-formed JWT."),
    Reason.TOKEN_TOO_LARGE: Row(
        431, "Token too large", "The token is larger than the gateway accepts.", "token-too-large"
    ),
    Reason.TOKEN_ALGORITHM: _token("The token's algorithm is not accepted from its issuer."),
    Reason.TOKEN_CRITICAL: _token("The token demands an extension that is not understood."),
    Reason.TOKEN_TYPE: _token("The token is of another type than an access token for this gateway."),
    Reason.TOKEN_SIGNATURE: _token("The token's signature does not verify."),
    Reason.TOKEN_KEY_UNKNOWN: _token("The token's signature does not verify.", slug="token-signature"),
    Reason.TOKEN_KEY_EMBEDDED: _token("The token brings a key of its own, or names where to find one."),
    Reason.TOKEN_ISSUER: _token("The token's issuer is not accepted here."),
    Reason.TOKEN_AUDIENCE: _token("The token is not meant for this gateway.", "TOKEN_UNKNOWN"),
    Reason.TOKEN_CLAIM_MALFORMED: _token("A claim of the token has a wrong type or value."),
    Reason.TOKEN_CLAIM_MISSING: _token("A claim that the token must carry is missing."),
    Reason.TOKEN_EXPIRED: _token("The token has expired.", "TOKEN_EXPIRED"),
    Reason.TOKEN_NOT_YET_VALID: _token("The token is not valid yet."),
    Reason.TOKEN_LIFETIME: _token("The token is valid for longer than its issuer may grant."),
    Reason.TOKEN_INACTIVE: _token("The token is not active."),
    Reason.TOKEN_REPLAYED: _token("The token is good for one request and has been used."),
    Reason.TOKEN_UNBOUND: _token("This route needs a token that is bound to its sender."),
    Reason.BINDING_MISMATCH: _token("The token is bound to another sender."),
    Reason.BINDING_UNSUPPORTED: _token("The token is bound in a way that the gateway cannot check."),
    Reason.PROOF_MISSING: _token("The token needs a DPoP proof.", "TOKEN_INVALID", "invalid_dpop_proof"),
    Reason.PROOF_INVALID: _token("The DPoP proof does not hold.", "TOKEN_INVALID", "invalid_dpop_proof"),
    Reason.PROOF_REPLAYED: _token("The DPoP proof does not hold.", error="invalid_dpop_proof", slug="proof-invalid"),
    Reason.API_KEY_UNKNOWN: Row(
        401,
        "Credential refused",
        "The API key is not accepted.",
        "api-key-invalid",
        challenge="",
        berlin="TOKEN_INVALID",
    ),
    Reason.API_KEY_EXPIRED: Row(
        401,
        "Credential refused",
        "The API key is not accepted.",
        "api-key-invalid",
        challenge="",
        berlin="TOKEN_EXPIRED",
    ),
    Reason.CLIENT_UNKNOWN: _token("The client is not registered at this gateway.", "TOKEN_UNKNOWN"),
    Reason.CLIENT_MISMATCH: _token("The credential belongs to another client than the certificate.", "TOKEN_UNKNOWN"),
    Reason.CREDENTIAL_REVOKED: _token("The credential has been revoked."),
    Reason.SCOPE_MISSING: _forbidden(
        "Scope missing", "The credential lacks a scope that this route needs.", "SERVICE_BLOCKED", "insufficient_scope"
    ),
    Reason.ROLE_MISSING: _forbidden("Role missing", "The caller lacks a role that this route needs."),
    Reason.PSD2_ROLE_MISSING: _forbidden(
        "PSD2 role missing", "The client certificate lacks the PSD2 role that this route needs.", "ROLE_INVALID"
    ),
    Reason.TIER_REFUSED: _forbidden("Tier refused", "The caller's tier may not use this route."),
    Reason.CLAIM_REFUSED: _forbidden("Claim refused", "A claim does not meet what this route needs."),
    Reason.ADDRESS_REFUSED: _forbidden("Address refused", "The source address may not use this route."),
    Reason.ADDRESS_FLOOD: Row(
        429, "Too many requests", "Too many requests from this address.", "quota-exceeded", type_base=IANA
    ),
    Reason.QUOTA_EXCEEDED: Row(
        429, "Too many requests", "A quota of this caller is used up.", "quota-exceeded", type_base=IANA
    ),
    Reason.STREAMS_EXCEEDED: Row(
        429,
        "Too many concurrent streams",
        "The caller has no free stream left.",
        "quota-exceeded",
        type_base=IANA,
        retry_after=1,
    ),
    Reason.OVERLOADED: Row(
        503, "Overloaded", "The gateway is shedding load.", "temporary-reduced-capacity", "gateway", None, None, 1, IANA
    ),
    Reason.NOT_READY: _away(503, "Not ready", "The gateway holds no policy yet."),
    Reason.INTERNAL: _away(500, "Internal error", "The gateway failed while it decided.", retry=None),
    Reason.IDENTITY_UNAVAILABLE: _away(503, "Identity unavailable", "The credential cannot be verified at the moment."),
    Reason.REVOCATION_UNAVAILABLE: _away(
        503, "Revocation unavailable", "The state of the credential cannot be told now."
    ),
    Reason.LIMITER_UNAVAILABLE: _away(503, "Limiter unavailable", "The limits of this route cannot be counted now."),
    Reason.POLICY_UNAVAILABLE: _away(503, "Policy unavailable", "The gateway's policy service did not answer."),
    Reason.UPSTREAM_BREAKER_OPEN: _away(
        503, "Service unavailable", "The service is resting after failures.", "upstream"
    ),
    Reason.UPSTREAM_UNREACHABLE: _away(503, "Service unavailable", "The service cannot be reached.", "upstream"),
    Reason.UPSTREAM_TIMEOUT: _away(504, "Gateway timeout", "The service did not answer in time.", "upstream", None),
    Reason.UPSTREAM_OVERLOADED: _away(
        503, "Service unavailable", "The service has no room for another request.", "upstream"
    ),
    Reason.UPSTREAM_INVALID: _away(502, "Bad gateway", "The service's answer was not usable.", "upstream", None),
}

TABLE: dict[Reason, Row] = {
    reason: row if row.slug else replace(row, slug=reason.value) for reason, row in _ROWS.items()
}
