"""The keys of the caller context."""

import jwt
import pytest

from authz.ring import ContextRing, RingInvalid
from model.instant import DAY, MINUTE, SECOND
from tests.authz.build import NOW


def kids(ring):
    return [key["kid"] for key in ring.jwks()["keys"]]


def test_first_key_signs_at_once_and_verifies_with_the_published_set():
    """What a new ring signs is verified by its own JWK set, with a library that is not ours."""
    ring = ContextRing.create(NOW)

    text = ring.sign(b'{"sub":"a"}', NOW)

    key = jwt.PyJWKSet.from_dict(ring.jwks())[jwt.get_unverified_header(text)["kid"]]
    assert jwt.decode(text, key, algorithms=["EdDSA"]) == {"sub": "a"}


def test_next_key_is_published_one_overlap_before_it_signs():
    """An upstream that reads the set once per overlap knows every key before it meets it."""
    ring = ContextRing.create(NOW, rotation=DAY, overlap=10 * MINUTE)

    early = ring.rotate(NOW + DAY - 10 * MINUTE)

    assert len(kids(early)) == 2
    assert early.signer(NOW + DAY - 1).public["kid"] == kids(ring)[0]
    assert early.signer(NOW + DAY).public["kid"] == kids(early)[1]


def test_old_key_stays_published_one_overlap_after_it_signed_last():
    """A context signed at the last moment is still verified for as long as it lives."""
    ring = ContextRing.create(NOW, rotation=DAY, overlap=10 * MINUTE).rotate(NOW + DAY - 10 * MINUTE)

    assert len(kids(ring.rotate(NOW + DAY + 10 * MINUTE - 1))) == 2
    assert kids(ring.rotate(NOW + DAY + 10 * MINUTE)) == kids(ring)[1:]


def test_nothing_due_is_the_same_ring():
    """A caller can tell by identity whether there is anything to save."""
    ring = ContextRing.create(NOW)

    assert ring.rotate(NOW + MINUTE) is ring


def test_ring_found_again_after_days_keeps_signing_with_the_old_key_until_the_new_one_is_known():
    """After a long stop the new key is still published for a whole overlap before it signs."""
    ring = ContextRing.create(NOW, rotation=DAY, overlap=10 * MINUTE)
    later = NOW + 5 * DAY

    found = ring.rotate(later)

    assert found.signer(later).public["kid"] == kids(ring)[0]
    assert found.signer(later + 10 * MINUTE).public["kid"] == kids(found)[1]


def test_clock_that_went_back_still_finds_a_signer():
    """Before the first key's time the oldest key signs: there is always one."""
    ring = ContextRing.create(NOW)

    assert ring.signer(NOW - DAY).public["kid"] == kids(ring)[0]


def test_ring_survives_its_json_form():
    """A ring that is written and read again publishes and signs the same."""
    ring = ContextRing.create(NOW).rotate(NOW + DAY - SECOND)

    again = ContextRing.from_json(ring.to_json())

    assert again.jwks() == ring.jwks()
    assert again.sign(b"{}", NOW) == ring.sign(b"{}", NOW)


def test_published_set_holds_no_private_member():
    """The JWK set is for everybody."""
    assert all("d" not in key for key in ContextRing.create(NOW).jwks()["keys"])


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"keys":[],"rotation":1,"overlap":1}', '{"keys":[{"d":"AA","since":1}]}', "null"]
)
def test_what_is_no_ring_is_refused(text):
    """A damaged file is told apart from a ring."""
    with pytest.raises(RingInvalid):
        ContextRing.from_json(text)
