"""Certificate policies along a path: RFC 5280 section 6.1 without a tree."""

import pytest

from authz.policies import ANY, Policies, policies_hold

GOLD, SILVER, LEAD = "1.2.1", "1.2.2", "1.2.3"


def named(*policies, **options):
    return Policies(frozenset(policies), **options)


def holds(*path, self_issued=()):
    """Whether the policies of a path hold; written from the CA below the anchor down to the leaf."""
    return policies_hold([(each, index in self_issued) for index, each in enumerate(path)][::-1])


def test_nobody_who_demands_nothing_is_disappointed():
    """Without a demand, paths hold whatever the certificates name, or name not."""
    assert holds()
    assert holds(Policies(None))
    assert holds(named(GOLD), Policies(None))
    assert holds(named(GOLD), named(SILVER))


def test_a_demand_is_met_by_a_policy_that_all_of_the_path_name():
    """requireExplicitPolicy 0 binds from that CA on."""
    demand = {"require_explicit": 0}
    assert holds(named(GOLD, **demand), named(GOLD, SILVER))
    assert holds(named(ANY, **demand), named(GOLD))
    assert holds(named(GOLD, **demand), named(ANY))
    assert not holds(named(GOLD, **demand), named(SILVER))
    assert not holds(named(GOLD, **demand), Policies(None))
    assert not holds(Policies(None, **demand), named(GOLD))


def test_a_demand_may_come_later_and_from_the_leaf_itself():
    """A count of certificates that may still go without; self-issued ones do not count."""
    assert holds(named(GOLD, require_explicit=2), Policies(None))
    assert not holds(named(GOLD, require_explicit=1), Policies(None))
    assert not holds(named(GOLD, require_explicit=1), named(SILVER), named(GOLD))
    assert holds(named(GOLD, require_explicit=3), Policies(None), Policies(None), self_issued={1})
    assert not holds(named(GOLD), Policies(None, require_explicit=0))


def test_mappings_carry_a_policy_over():
    """What the CA above calls gold may be called lead below, unless that is inhibited."""
    mapped = {"mappings": ((GOLD, LEAD),), "require_explicit": 0}
    assert holds(named(GOLD, **mapped), named(LEAD))
    assert not holds(named(GOLD, **mapped), named(GOLD))
    assert not holds(named(SILVER, **mapped), named(LEAD))
    assert holds(named(ANY, **mapped), named(LEAD))
    first = named(GOLD, require_explicit=0, inhibit_mapping=0)
    assert not holds(first, named(GOLD, mappings=((GOLD, LEAD),)), named(LEAD))


@pytest.mark.parametrize("mapping", [(ANY, GOLD), (GOLD, ANY)])
def test_any_policy_cannot_be_mapped(mapping):
    """RFC 5280 section 6.1.4 a."""
    assert not holds(named(GOLD, mappings=(mapping,)), named(GOLD))


def test_any_policy_may_be_inhibited():
    """inhibitAnyPolicy 0: below, anyPolicy is no policy; but in self-issued CAs it still is."""
    first = named(GOLD, require_explicit=0, inhibit_any=0)
    assert not holds(first, named(ANY))
    assert holds(first, named(ANY), named(GOLD), self_issued={1})
    assert not holds(first, named(ANY), named(GOLD))
