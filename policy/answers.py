"""Header hygiene of answers, done by Envoy itself: what is stripped from them and what is set on them.

The filter stands first, so that it is the last to see an answer, whoever gave it: an upstream, the sidecar in refusing,
or Envoy in place of an upstream. Only what Envoy answers before it has a request (400 to what is no HTTP) passes by it.
"""

from envoy_data_plane.envoy.config.common.mutation_rules import v3 as rules
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.extensions.filters.http.header_mutation import v3 as mutation
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager import v3 as hcm
from envoy_data_plane.envoy.type.matcher import v3 as matcher
from envoy_data_plane.google.protobuf import Any as Packed

from policy.gateway import Document
from policy.plane import Answers
from policy.route import Route
from policy.typed import pack

ANSWERS = "envoy.filters.http.header_mutation"


def answer_filters(plane: str, document: Document) -> list[hcm.HttpFilter]:
    """Write the filter of a plane, where it or one of its routes has something to say; routes add to their plane."""
    common = document.planes[plane].responses
    if common is None and not any(route.plane == plane and answer_rules(route) for route in document.routes):
        return []
    settings = mutation.HeaderMutation(mutations=_mutations(common) if common is not None else None)
    return [hcm.HttpFilter(name=ANSWERS, typed_config=pack(settings))]


def answer_rules(route: Route) -> dict[str, Packed]:
    """Say what one route wants of that filter, where ext_proc does not do it together with the body."""
    responses = route.responses
    if responses is None or responses.problems:
        return {}
    return {ANSWERS: pack(mutation.HeaderMutationPerRoute(mutations=_mutations(responses)))}


def _mutations(answers: Answers) -> mutation.Mutations:
    """Strip first, so that what is both stripped and set is set."""
    fields = [_field(name, value) for name, value in answers.set.items()]
    return mutation.Mutations(response_mutations=[*map(_removal, answers.strip), *fields])


def _removal(pattern: str) -> rules.HeaderMutation:
    if not pattern.endswith("*"):
        return rules.HeaderMutation(remove=pattern)
    family = matcher.StringMatcher(prefix=pattern.removesuffix("*"), ignore_case=True)
    return rules.HeaderMutation(remove_on_match=rules.HeaderMutationRemoveOnMatch(key_matcher=family))


def _field(name: str, value: str) -> rules.HeaderMutation:
    """Set one field. A percent sign would begin one of Envoy's commands."""
    option = core.HeaderValueOption(
        header=core.HeaderValue(key=name, value=value.replace("%", "%%")),
        append_action=core.HeaderValueOptionHeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD,
    )
    return rules.HeaderMutation(append=option)
