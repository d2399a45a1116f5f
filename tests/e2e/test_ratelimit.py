"""Envoy's own ratelimit filter, in a real Envoy, against our service: each feature that the filter can show."""

import json
import os
from pathlib import Path

import pytest

from ratelimit.imported import load_rules
from tests.e2e.limited import Backstage, Proxy, proxy, stage
from tests.e2e.limits import RULES, bootstrap, example_config
from tests.ratelimit.asking import rules

pytestmark = pytest.mark.e2e

EXAMPLES = Path(os.environ.get("WARDGATE_VECTORS", "../shared/vectors")) / "envoy-ratelimit" / "examples"


@pytest.fixture(scope="module")
def backstage():
    with stage(rules(RULES)) as running:
        yield running


@pytest.fixture(scope="module")
def envoy(backstage: Backstage, tmp_path_factory):
    with proxy(bootstrap(backstage.ports), tmp_path_factory.mktemp("envoy")) as running:
        yield running


@pytest.fixture(autouse=True)
def afresh(backstage: Backstage):
    """Each test starts a day later, with all but the weekly limits whole again."""
    backstage.ahead += 86_400
    backstage.answers.clear()
    backstage.errors.clear()


def statuses(envoy: Proxy, times: int, path: str, **headers: str) -> list[int]:
    return [envoy.get(path, "plain", **headers).status for _ in range(times)]


def asked(backstage: Backstage) -> list[tuple]:
    """The entries of all descriptors that the service was last asked about."""
    return [descriptor.entries for descriptor in backstage.answers[-1][0].descriptors]


def test_a_generic_key_is_limited_and_the_limit_is_whole_again_after_its_window(envoy, backstage):
    assert statuses(envoy, 4, "/generic") == [200, 200, 200, 429]
    backstage.ahead += 61
    assert statuses(envoy, 1, "/generic") == [200]


def test_envoy_builds_its_own_fields_from_our_statuses(envoy):
    headers = envoy.get("/client", "plain", x_client="fields").headers
    assert headers["x-ratelimit-limit"] == '2, 2;w=60;name="per client"'
    assert headers["x-ratelimit-remaining"] == "1"
    assert headers["x-ratelimit-reset"] == "60"


def test_our_structured_fields_reach_the_client_on_an_answer_of_the_upstream(envoy):
    reply = envoy.get("/client", "plain", x_client="structured")
    assert reply.status == 200
    assert reply.headers["ratelimit-policy"] == '"per client";q=2;w=60'
    assert reply.headers["ratelimit"] == '"per client";r=1;t=60'
    assert "retry-after" not in reply.headers


def test_a_refusal_reaches_the_client_as_a_problem_document_with_one_set_of_numbers(envoy):
    statuses(envoy, 2, "/client", x_client="refused")
    reply = envoy.get("/client", "plain", x_client="refused")
    assert reply.status == 429
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.headers["x-envoy-ratelimited"] == "true"
    document = json.loads(reply.body)
    assert document["type"] == "https://iana.org/assignments/http-problem-types#quota-exceeded"
    assert (document["limit"], document["scope"]) == ("per client", ["client"])
    wait = str(document["retry_after"])
    assert reply.headers["retry-after"] == reply.headers["x-ratelimit-reset"] == wait
    assert reply.headers["ratelimit"] == f'"per client";r=0;t={wait}'


def test_a_request_header_gives_each_of_its_values_a_limit_of_its_own(envoy):
    assert statuses(envoy, 3, "/client", x_client="a") == [200, 200, 429]
    assert statuses(envoy, 3, "/client", x_client="b") == [200, 200, 429]


def test_the_remote_address_is_limited(envoy, backstage):
    assert statuses(envoy, 5, "/address") == [200] * 4 + [429]
    assert asked(backstage) == [(("remote_address", "127.0.0.1"),)]


def test_a_masked_remote_address_is_limited_by_its_network(envoy, backstage):
    assert statuses(envoy, 6, "/masked") == [200] * 5 + [429]
    assert asked(backstage) == [(("masked_remote_address", "127.0.0.0/8"),)]


def test_a_header_match_chooses_the_limit_of_the_plan(envoy):
    assert statuses(envoy, 4, "/plan", x_plan="premium") == [200, 200, 200, 429]
    assert statuses(envoy, 2, "/plan", x_plan="basic") == [200, 429]


def test_a_query_parameter_is_limited_by_its_value_and_by_its_presence(envoy):
    assert statuses(envoy, 2, "/query?user=u1") == [200, 429]
    assert statuses(envoy, 1, "/query?user=u2") == [200]
    assert statuses(envoy, 2, "/paged?page=7") == [200, 429]
    assert statuses(envoy, 2, "/paged") == [200, 200]


def test_source_and_destination_cluster_make_a_nested_descriptor(envoy, backstage):
    assert statuses(envoy, 2, "/cluster") == [200, 429]
    assert asked(backstage) == [(("source_cluster", "proxy"), ("destination_cluster", "one"))]


def test_a_value_of_dynamic_metadata_chooses_a_weekly_limit(envoy):
    reply = envoy.get("/metadata", "plain")
    assert (reply.status, reply.headers["x-ratelimit-limit"]) == (200, "1, 1;w=604800")
    assert statuses(envoy, 1, "/metadata") == [429]


def test_r_03_one_tier_that_refuses_leaves_the_other_as_it_was(envoy):
    assert statuses(envoy, 20, "/two", x_client="u") == [200] * 5 + [429] * 15
    reply = envoy.get("/two", "plain", x_client="u2")
    assert reply.headers["ratelimit"] == '"site";r=94;t=60, "member";r=4;t=60'


def test_hits_of_a_descriptor_come_from_the_request(envoy):
    assert statuses(envoy, 1, "/cost", x_client="c", x_cost="8") == [200]
    assert statuses(envoy, 1, "/cost", x_client="c", x_cost="3") == [429]
    assert statuses(envoy, 2, "/cost", x_client="c", x_cost="2") == [200, 429]


def test_r_01_zero_hits_look_at_the_limit_and_count_nothing(envoy):
    assert statuses(envoy, 30, "/cost", x_client="look", x_cost="0") == [200] * 30
    assert envoy.get("/cost", "plain", x_client="look", x_cost="10").status == 200
    assert statuses(envoy, 1, "/cost", x_client="look", x_cost="0") == [429]


def test_a_debit_when_the_stream_is_done_is_seen_by_the_look_of_the_next_request(envoy, backstage):
    assert envoy.get("/debit", "plain", x_client="d").headers["x-ratelimit-remaining"] == "10"
    backstage.await_answers(2)
    assert envoy.get("/debit", "plain", x_client="d").headers["x-ratelimit-remaining"] == "4"


def test_a_reservation_gives_back_what_was_not_used_when_the_stream_is_done(envoy, backstage):
    assert envoy.get("/reserve", "plain", x_client="v").headers["x-ratelimit-remaining"] == "2"
    backstage.await_answers(2)
    assert envoy.get("/cost", "plain", x_client="v", x_cost="0").headers["x-ratelimit-remaining"] == "7"


def test_a_limit_from_metadata_wins_over_the_rule(envoy):
    reply = envoy.get("/override", "plain", x_client="o")
    assert (reply.status, reply.headers["x-ratelimit-limit"]) == (200, "1, 1;w=3600")
    assert statuses(envoy, 1, "/override", x_client="o") == [429]


def test_r_13_without_the_header_the_limit_that_cannot_be_left_out_still_holds(envoy, backstage):
    """R-13: Envoy drops the descriptor of a missing header, so a limit by address stands beside it."""
    assert statuses(envoy, 5, "/covered") == [200] * 4 + [429]
    assert asked(backstage) == [(("remote_address", "127.0.0.1"),)]
    backstage.ahead += 61
    assert statuses(envoy, 3, "/covered", x_client="r13") == [200, 200, 429]
    assert asked(backstage) == [(("client", "r13"),), (("remote_address", "127.0.0.1"),)]
    backstage.ahead += 61
    assert statuses(envoy, 3, "/covered", x_client="") == [200, 200, 429]
    assert asked(backstage) == [(("client", ""),), (("remote_address", "127.0.0.1"),)]


def test_a_shadow_rule_refuses_nobody_and_envoy_shows_nothing_left(envoy, backstage):
    replies = [envoy.get("/shadow", "plain", x_client="s") for _ in range(3)]
    assert [reply.status for reply in replies] == [200, 200, 200]
    assert replies[-1].headers["x-ratelimit-remaining"] == "0"
    assert backstage.service.tally.snapshot()["edge.shadow"]["shadow"] == 2


def test_an_unlimited_rule_and_an_unknown_key_let_everybody_through(envoy):
    assert statuses(envoy, 20, "/free") == [200] * 20
    assert statuses(envoy, 20, "/unknown") == [200] * 20


def test_a_limit_of_zero_lets_nobody_through(envoy):
    assert statuses(envoy, 2, "/block") == [429, 429]


def test_a_route_without_descriptors_asks_nobody(envoy, backstage):
    assert statuses(envoy, 1, "/plain") == [200]
    assert backstage.answers == []


def test_quota_mode_steers_by_metadata_until_every_quota_is_used_up(envoy):
    replies = [envoy.get("/steer", "plain") for _ in range(3)]
    assert [reply.status for reply in replies] == [200, 200, 429]
    assert [reply.echoed["x-steered-to"] for reply in replies[:2]] == ["one", "two"]


def test_the_status_of_a_refusal_is_envoys_to_choose(envoy):
    assert envoy.get("/block", "status").status == 503


def test_an_unknown_domain_is_let_through(envoy):
    assert envoy.get("/block", "other-domain").status == 200


def test_limits_that_cannot_be_counted_let_the_filters_failure_mode_decide(envoy, backstage):
    backstage.limiter.away = True
    try:
        assert envoy.get("/generic", "plain").status == 200
        assert envoy.get("/generic", "deny").status == 503
    finally:
        backstage.limiter.away = False
    assert [error.message for error in backstage.errors] == ["limits cannot be counted now"] * 2


def test_a_service_that_is_away_fails_open_by_default_and_closed_where_that_is_asked_for(envoy):
    assert envoy.get("/generic", "gone").status == 200
    assert envoy.get("/generic", "gone-deny").status == 500


# The reference's own example, Envoy configuration and rules alike; addresses and the filter's time-out are ours.


@pytest.fixture(scope="module")
def example():
    if not EXAMPLES.is_dir():
        pytest.skip("envoy-ratelimit examples left out: WARDGATE_VECTORS has no such folder")
    with stage(load_rules(EXAMPLES / "ratelimit" / "config")) as running:
        yield running


@pytest.fixture(scope="module")
def example_envoy(example: Backstage, tmp_path_factory):
    config = example_config(EXAMPLES, example.ports)
    folder = tmp_path_factory.mktemp("example")
    with proxy(config, folder, "--service-node", "proxy", "--service-cluster", "proxy") as running:
        yield running


def example_codes(envoy: Proxy, times: int, path: str, **headers: str) -> list[int]:
    return [envoy.get(path, **headers).status for _ in range(times)]


@pytest.fixture
def tomorrow(example: Backstage):
    example.ahead += 86_400
    example.answers.clear()


def test_the_references_example_limits_two_headers(example_envoy, tomorrow):
    assert example_codes(example_envoy, 5, "/twoheader", foo="pelle", baz="not-so-shady") == [200] * 3 + [429] * 2
    assert example_codes(example_envoy, 5, "/twoheader", foo="pelle", baz="shady") == [200] * 5
    assert example_codes(example_envoy, 1, "/twoheader", foo="pelle", bar="banned") == [429]
    assert example_codes(example_envoy, 3, "/header", foo="foo") == [200, 200, 429]
    assert example_codes(example_envoy, 2, "/test") == [200, 429]


def test_the_references_example_counts_each_unspecified_value_under_its_own_name(example_envoy, example, tomorrow):
    assert example_codes(example_envoy, 3, "/unspec", unspec="unspecified_value") == [200, 200, 429]
    assert example.service.tally.snapshot()["rl.unspec_unspecified_value"]["over"] == 1


def test_the_references_example_refuses_when_both_quotas_are_used_up(example_envoy, tomorrow):
    assert example_codes(example_envoy, 3, "/quota") == [200, 200, 429]


def test_the_references_example_debits_tokens_on_the_way_back_and_never_more_than_the_quota(
    example_envoy, example, tomorrow
):
    """The reference lets three through at two a minute, since it refuses above the limit and not at it."""
    codes = []
    for call in range(3):
        codes.append(example_envoy.get("/tokenquota").status)
        # Envoy debits a refused call too when its stream is done.
        example.await_answers(2 * call + 2)
    assert codes == [200, 200, 429]


def test_the_references_example_steers_to_the_service_that_has_quota(example_envoy, example, tomorrow):
    replies = []
    for call in range(4):
        replies.append(example_envoy.get("/multiservice-tokenquota"))
        # A refused call reached no cluster, and so has nothing to debit.
        example.await_answers(min(2 * call + 2, 7))
    assert [reply.status for reply in replies] == [200, 200, 200, 429]
    assert [json.loads(reply.body)["upstream"] for reply in replies[:3]] == ["one", "two", "two"]


def test_the_references_example_replaces_limits_by_name(example_envoy, tomorrow):
    def codes(times: int, path: str, **fields: str) -> list[int]:
        return [example_envoy.get(path, fields=fields).status for _ in range(times)]

    banned = {"foo": "a", "bar": "banned", "source_cluster": "proxy"}
    assert codes(1, "/twoheader", foo="a", bar="banned") == [429]
    assert codes(1, "/fourheader", **banned, destination_cluster="mock") == [429]
    assert codes(3, "/fourheader", **banned, destination_cluster="override") == [200, 200, 429]
    mine = {"foo": "b", "bar": "bkthomps", "source_cluster": "proxy"}
    assert codes(3, "/fourheader", **mine, destination_cluster="bkthomps") == [200, 200, 429]
    assert codes(2, "/fourheader", **mine, destination_cluster="unknown") == [200, 429]
    assert codes(5, "/fiveheader", **mine, destination_cluster="fake", category="account") == [200] * 4 + [429]
    other = {"foo": "c", "bar": "c", "source_cluster": "proxy", "destination_cluster": "fake"}
    assert codes(3, "/fourheader", **other) == [200, 200, 429]
