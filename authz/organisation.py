"""Who the certificate names: roles, national authority and organizationIdentifier, and whether they agree.

ETSI TS 119 495 sections 5.2.1 to 5.2.3, ETSI EN 319 412-1 section 5.1.4.
"""

import re
from collections.abc import Sequence

from authz.statements import ROLES, Authorisation
from model.reason import Reason
from model.verdict import Deny

UNSPECIFIED = "Unspecified"
PSD2_ROLES = frozenset(ROLES.values()) - {UNSPECIFIED}

LISTED_AUTHORITIES = frozenset(
    {
        "AT-FMA", "BE-NBB", "BG-BNB", "CY-CBC", "CZ-CNB", "DE-BAFIN", "DK-DFSA", "EE-FI", "ES-BE", "FI-FINFSA",
        "FR-ACPR", "GB-FCA", "GR-BOG", "HR-CNB", "HU-CBH", "IE-CBI", "IS-FME", "IT-BI", "LI-FMA", "LT-BL", "LU-CSSF",
        "LV-FCMC", "MT-MFSA", "NL-DNB", "NO-FSA", "PL-PFSA", "PT-BP", "RO-NBR", "SE-FINA", "SI-BS", "SK-NBS",
    }
)  # fmt: skip
"""The authorities of ETSI TS 119 495 Annex D. They come and go, so that not being listed is worth a remark only."""

AUTHORITY_ID = re.compile(r"[A-Z]{2}-[A-Z]{2,8}", re.ASCII)
PSD = re.compile(r"PSD([A-Z]{2}-[A-Z]{2,8})-(?! )[^\x00-\x1f\x7f-\x9f]{1,200}(?<! )", re.ASCII)
OTHER_SCHEMES = {
    "NTR": re.compile(r"NTR[A-Z]{2}-(?! )[^\x00-\x1f\x7f-\x9f]{1,200}(?<! )", re.ASCII),
    "VAT": re.compile(r"VAT[A-Z]{2}-(?! )[^\x00-\x1f\x7f-\x9f]{1,200}(?<! )", re.ASCII),
    "LEI": re.compile(r"LEIXG-[A-Z0-9]{18}[0-9]{2}", re.ASCII),
}
"""Registration schemes that carry no authorisation number: accepted only where the profile names them."""


def read_roles(authorisation: Authorisation) -> frozenset[str] | Deny:
    """Take the known roles from their OIDs; roles of unknown OIDs are ignored, repetition is harmless.

    `Unspecified` stands alone (GEN-5.2.2-1). A known OID whose text is another role's is refused (GEN-5.2.2-5).
    """
    roles = set()
    for role in authorisation.roles:
        known = ROLES.get(role.oid.dotted_string)
        if known is not None and known != role.name:
            return Deny(Reason.CERTIFICATE_ROLE_MISMATCH)
        if known is not None:
            roles.add(known)
    if not roles:
        return Deny(Reason.CERTIFICATE_ROLES_MISSING)
    if UNSPECIFIED in roles and len(authorisation.roles) > 1:
        return Deny(Reason.CERTIFICATE_ROLE_MISMATCH, "The PSD2 role Unspecified must stand alone.")
    return frozenset(roles)


def judge_authority(authorisation: Authorisation) -> Deny | None:
    """Whether the NCAId is an ISO country code, a dash and two to eight capital letters (GEN-5.2.3-2)."""
    if AUTHORITY_ID.fullmatch(authorisation.authority_id) and authorisation.authority_name.isprintable():
        return None
    return Deny(Reason.CERTIFICATE_AUTHORITY_ID)


def judge_organisation(
    organisations: Sequence[str], authority_id: str, schemes: Sequence[str] = ("PSD",)
) -> str | Deny:
    """Return the one organizationIdentifier, exactly as it stands, or why it is none.

    A "PSD" identifier must name the authority of the PSD2 statement; what follows the second dash is free text.
    """
    if len(organisations) != 1:
        return Deny(Reason.CERTIFICATE_ORGANISATION_ID, "The client certificate must name one organizationIdentifier.")
    identifier = organisations[0]
    psd = PSD.fullmatch(identifier)
    if psd and "PSD" in schemes:
        if psd.group(1) == authority_id:
            return identifier
        return Deny(
            Reason.CERTIFICATE_ORGANISATION_ID,
            "The organizationIdentifier names another national authority than the PSD2 statement.",
        )
    other = OTHER_SCHEMES.get(identifier[:3])
    if other is not None and identifier[:3] in schemes and other.fullmatch(identifier):
        return identifier
    return Deny(
        Reason.CERTIFICATE_ORGANISATION_ID, "The organizationIdentifier is not of a scheme that is accepted here."
    )
