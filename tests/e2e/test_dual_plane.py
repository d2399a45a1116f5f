"""The dual-plane example: one backend, two faces, and no rule of one that holds on the other."""

import json

import pytest
from ruamel.yaml import YAML

from authz.apikey import hash_key
from tests.e2e.stage import Stage, bearer

UPSTREAMS = ("AURA_AUTH", "AURA_DB", "AURA_STORAGE", "AURA_FUNCTIONS", "AURA_REALTIME", "AURA_CONTROL")
DATA, MANAGEMENT = 0, 1
STUDIO = "https://studio.aurabase.example"
USER = {"iss": "https://auth.aurabase.example", "aud": "authenticated"}
CONSOLE = {"iss": "https://console.aurabase.example", "aud": "aurabase-control"}


def key(name, **members):
    """An API key and its record."""
    text = f"{name}.secret"
    return {"id": name, "sha256": hash_key(text), "client_id": "starter", "tenant": f"project-{name}", **members}


KEYS = [
    key("anon1", roles=["anon"]),
    key("anon2", roles=["anon"]),
    key("few", roles=["anon"]),
    key("service", roles=["service_role"], privileged=True),
]


@pytest.fixture(scope="module")
def stage():
    fewer = (
        "starter: {rank: 1, limits: {actor: {rate: 100/s burst 1000",
        "starter: {rank: 1, limits: {actor: {rate: 6/min burst 60",
    )
    running = Stage("dual-plane", {**dict.fromkeys(UPSTREAMS, "SERVICES"), "API_KEYS": "keys.jsonl"}, fewer)
    (running.document.parent / "keys.jsonl").write_text("".join(json.dumps(each) + "\n" for each in KEYS))
    running.start("DATA_PORT", "MANAGEMENT_PORT")
    yield running
    running.stop()


def apikey(name):
    return {"apikey": f"{name}.secret"}


def user(**claims):
    return bearer(**{**USER, "sub": "user-1", "client_id": "sdk", "roles": ["authenticated"], **claims})


def console(**claims):
    return bearer(**{**CONSOLE, "sub": "owner-1", "client_id": "studio", **claims})


def test_key_names_the_project_and_a_token_the_user(stage):
    anonymous = stage.ask("/v1/db/rows", apikey("anon1"))
    known = stage.ask("/v1/db/rows", apikey("anon1") | user(sub="user-7"))

    told = ("x-aura-project", "x-aura-user", "x-aura-role", "apikey", "authorization")
    assert [anonymous.echoed.get(name) for name in told] == ["project-anon1", None, "anon", None, None]
    assert [known.echoed.get(name) for name in told] == ["project-anon1", "user-7", "authenticated", None, None]


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        ({}, "credential-missing"),
        (user(), "credential-missing"),
        ({"apikey": "anon1.wrong"}, "api-key-invalid"),
        (apikey("anon1") | user(exp=1), "token-expired"),
        (apikey("anon1") | console(), "token-issuer"),
    ],
)
def test_data_plane_wants_a_key_and_no_bad_token_beside_it(stage, headers, problem):
    reply = stage.ask("/v1/db/rows", headers)

    assert (reply.status, reply.problem) == (401, problem)
    assert "www-authenticate" in reply.headers


def test_few_paths_ask_for_no_key(stage):
    assert stage.ask("/health").status == 200
    assert stage.ask("/v1/auth/jwks.json").status == 200
    assert stage.ask("/v1/auth/token", method="POST").status == 401


def test_key_in_the_url_is_for_realtime_and_never_a_privileged_one(stage):
    reply = stage.ask("/v1/realtime/events?apikey=anon1.secret&since=5")

    assert reply.status == 200
    assert json.loads(reply.body)["path"] == "/v1/realtime/events?since=5"
    assert stage.ask("/v1/db/rows?apikey=anon1.secret").status == 401
    assert stage.ask("/v1/realtime/events?apikey=service.secret").status == 401
    assert stage.ask("/v1/realtime/events", apikey("service")).status == 200


def test_schema_is_for_the_service_role(stage):
    assert stage.ask("/v1/db/admin/schema", apikey("anon1")).status == 403
    assert stage.ask("/v1/db/admin/schema", apikey("service")).status == 200


def test_management_plane_knows_the_console_and_nobody_else(stage):
    """No key opens it, and a user of a project is nobody there."""
    path = "/v1/projects/7"
    assert stage.ask(path, console(), plane=MANAGEMENT).status == 200
    for headers in (apikey("service"), user(), console(aud="authenticated"), {}):
        assert stage.ask(path, headers, plane=MANAGEMENT).status == 401
    assert stage.ask(path, apikey("service") | console(), plane=MANAGEMENT).status == 400
    assert stage.ask(path, apikey("anon1"), plane=DATA).status == 404


def test_each_plane_has_origins_of_its_own(stage):
    asking = {"access-control-request-method": "PATCH", "access-control-request-headers": "apikey"}

    def allowed(origin, plane, path):
        reply = stage.ask(path, asking | {"origin": origin}, "OPTIONS", plane=plane)
        return reply.headers.get("access-control-allow-origin"), reply.headers.get("access-control-allow-credentials")

    assert allowed("https://any.example", DATA, "/v1/db/rows")[0] in ("*", "https://any.example")
    assert allowed("https://any.example", DATA, "/v1/db/rows")[1] is None
    assert allowed(STUDIO, MANAGEMENT, "/v1/projects/7") == (STUDIO, "true")
    assert allowed("https://any.example", MANAGEMENT, "/v1/projects/7") == (None, None)


def test_answers_of_both_planes_are_hardened(stage):
    for reply in (stage.ask("/v1/db/rows"), stage.ask("/v1/logs", console(), plane=MANAGEMENT)):
        assert reply.headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"


def test_quota_is_that_of_the_key_whoever_its_user_is(stage):
    statuses = [stage.ask("/v1/db/rows", apikey("few")).status for _ in range(61)]

    assert statuses == [200] * 60 + [429]
    assert stage.ask("/v1/db/rows", apikey("anon2")).status == 200


def test_functions_have_a_time_budget_of_their_own(stage):
    """A longer budget of one group is cut by no shorter one around it."""
    compiled = YAML(typ="safe").load((stage.folder / "envoy" / "rds-data.yaml").read_text())
    routes = {each["name"]: each for each in compiled["resources"][0]["virtual_hosts"][0]["routes"] if "name" in each}
    timeouts = {name: routes[name]["route"]["timeout"] for name in ("functions", "db", "auth", "storage")}
    assert timeouts == {"functions": "380.010s", "db": "30.010s", "auth": "30.010s", "storage": "0s"}


def test_failing_functions_rest_and_the_rest_goes_on(stage):
    statuses = [stage.ask("/v1/functions/f", apikey("service") | {"x-answer": "500"}).status for _ in range(6)]

    assert statuses == [500] * 5 + [503]
    assert stage.ask("/v1/db/rows", apikey("service")).status == 200
    assert stage.ask("/v1/functions/f", console(), plane=MANAGEMENT).status == 503


def test_flood_of_strangers_is_stopped_before_anything_is_verified(stage):
    """Last, since the address is everybody's here."""
    statuses = {stage.ask("/v1/projects/7", {"authorization": "Bearer x"}, plane=MANAGEMENT).status for _ in range(140)}

    assert statuses == {401, 429}
