"""Which credential a request carries."""

import pytest

from authz.credential import query_credentials, read_credential
from authz.evidence import Credential
from model.reason import Reason
from model.snapshot import Kind
from tests.authz.build import plane, request, resident, route, snapshot

ALL = (Kind.JWT, Kind.API_KEY, Kind.OPAQUE)


def read(headers=None, kinds=(Kind.JWT,), repeated=(), stream=False, **changes):
    house = resident(snapshot(planes=(plane(credentials=kinds),), routes=(route(stream=stream),)))
    asked = request(bearer=None, headers=headers, repeated=frozenset(repeated), **changes)
    return read_credential(asked, house.plans["accounts"])


@pytest.mark.parametrize("field", ["Bearer a.b.c", "bearer a.b.c", "BEARER a.b.c", "Bearer  a.b.c"])
def test_scheme_is_read_in_any_case_and_the_token_as_it_stands(field):
    """RFC 9110 section 11.1: a scheme has no case; 1*SP may follow (bug report J-20)."""
    assert read({"authorization": field}) == Credential(Kind.JWT, "a.b.c", "bearer")


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ("Bearera.b.c", Reason.CREDENTIAL_KIND_REFUSED),
        ("Basic dTpw", Reason.CREDENTIAL_KIND_REFUSED),
        ("Bearer", Reason.TOKEN_MALFORMED),
        ("Bearer ", Reason.TOKEN_MALFORMED),
        ("Bearer a.b.c d.e.f", Reason.TOKEN_MALFORMED),
        ("Bearer\ta.b.c", Reason.CREDENTIAL_KIND_REFUSED),
    ],
)
def test_field_that_holds_no_single_token_is_refused(field, reason):
    """Whatever is not one scheme and one token is a 401 (bug report J-20)."""
    assert read({"authorization": field}).reason is reason


@pytest.mark.parametrize(
    ("headers", "repeated"),
    [
        ({"authorization": "Bearer a.b.c,Bearer d.e.f"}, ()),
        ({"authorization": "Bearer a.b.c, Bearer a.b.c"}, ("authorization",)),
        ({"x-api-key": "k1,k2"}, ()),
        ({"x-api-key": "k1, k1"}, ("x-api-key",)),
        ({"authorization": "Bearer a.b.c", "x-api-key": "k1"}, ()),
    ],
)
def test_two_credentials_are_never_resolved_into_one(headers, repeated):
    """Neither the first nor the last wins, in both of Envoy's encodings (bug report H-06)."""
    assert read(headers, ALL, repeated).reason is Reason.CREDENTIALS_AMBIGUOUS


@pytest.mark.parametrize("name", ["host", "dpop"])
def test_repeated_field_that_may_stand_once_is_refused(name):
    """Two Host or two DPoP fields make the request ambiguous."""
    found = read({"authorization": "Bearer a.b.c", name: "a, b"}, repeated=(name,))

    assert found.reason is Reason.HEADER_REPEATED


def test_header_and_query_credential_together_are_refused():
    """RFC 6750 section 2: one method a request."""
    found = read({"authorization": "Bearer a.b.c"}, path="/v1/accounts?access_token=x")

    assert found.reason is Reason.CREDENTIALS_AMBIGUOUS


@pytest.mark.parametrize(
    "path",
    ["/a?access_token=x", "/a?b=c&api_key=x", "/a?%61pi_key=x", "/a?access%5Ftoken=x", "/a?API_KEY=x", "/a?apikey=x"],
)
def test_credential_in_the_query_is_refused_in_any_spelling(path):
    """A credential in a URL ends in logs and histories; percent-encoding its name hides nothing."""
    assert read(path=path, kinds=ALL).reason is Reason.CREDENTIAL_KIND_REFUSED


def test_stream_route_takes_an_api_key_from_the_query():
    """An EventSource cannot set header fields."""
    found = read(path="/a?api_key=id.se%2Bcret", kinds=ALL, stream=True)

    assert found == Credential(Kind.API_KEY, "id.se+cret", "query")


def test_query_inside_the_query_is_not_a_parameter():
    """Only what stands between ampersands counts, after the first question mark (bug report H-15)."""
    assert query_credentials("/a?next=/b?access_token=x") == ()
    assert query_credentials("/a%3faccess_token=x") == ()
    assert query_credentials("/a?x=1&access_token=y&z") == (("access_token", "y"),)


def test_opaque_and_jwt_are_told_apart_by_their_shape():
    """Two dots make a JWT where one is accepted; an opaque-only route takes any text."""
    assert read({"authorization": "Bearer a.b.c"}, ALL).kind is Kind.JWT
    assert read({"authorization": "Bearer opaque"}, ALL).kind is Kind.OPAQUE
    assert read({"authorization": "Bearer a.b.c"}, (Kind.OPAQUE,)).kind is Kind.OPAQUE
    assert read({"authorization": "Bearer opaque"}, (Kind.JWT,)).kind is Kind.JWT


def test_kind_that_the_plane_does_not_accept_is_refused():
    """A key on a token plane, a token on a key plane, a token on a public one."""
    assert read({"x-api-key": "k"}, (Kind.JWT,)).reason is Reason.CREDENTIAL_KIND_REFUSED
    assert read({"authorization": "Bearer a.b.c"}, (Kind.API_KEY,)).reason is Reason.CREDENTIAL_KIND_REFUSED
    assert read({"authorization": "Bearer a.b.c"}, (Kind.NONE,)).reason is Reason.CREDENTIAL_KIND_REFUSED


def test_absent_credential_stands_on_certificate_or_on_nothing_where_accepted():
    """Without a credential the certificate is one where the plane says so; then nothing; then it is missing."""
    assert read(kinds=(Kind.CERTIFICATE, Kind.NONE), certificate="x").kind is Kind.CERTIFICATE
    assert read(kinds=(Kind.CERTIFICATE, Kind.NONE)).kind is Kind.NONE
    assert read(kinds=(Kind.CERTIFICATE,)).reason is Reason.CERTIFICATE_MISSING
    assert read(kinds=(Kind.JWT, Kind.CERTIFICATE)).reason is Reason.CREDENTIAL_MISSING
    assert read().reason is Reason.CREDENTIAL_MISSING
