"""Whatever fits or does not fit the OpenAPI description gets an answer of the description, never a 500."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

CHECKS = [
    not_a_server_error,
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
]


OPERATIONS = (
    "GET /api/about",
    "POST /api/measure",
    "GET /api/jobs/{ticket}/events",
    "DELETE /api/jobs/{ticket}",
    "GET /api/results/{keys}",
    "GET /api/map/{key}/{head}",
    "GET /api/netcdf/{keys}",
    "GET /api/why/{key}",
    "GET /api/answer/{key}",
    "GET /api/lens/{key}",
    "POST /api/page",
)
# the first takes nothing that could be wrong
TRIED = [(label, GenerationMode.POSITIVE) for label in OPERATIONS]
TRIED += [(label, GenerationMode.NEGATIVE) for label in OPERATIONS[1:]]
BOUNDED = settings(
    max_examples=12,
    derandomize=True,
    deadline=None,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="session")
def operations(server):
    schema = schemathesis.openapi.from_url(f"{server.address}/openapi.json")
    return {found.ok().label: found.ok() for found in schema.get_all_operations()}


def test_all_operations_are_tried(operations):
    assert sorted(operations) == sorted(OPERATIONS)


# the server is a thread of this process, and what it does with `random` is taken for the strategy's doing
@pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")
@pytest.mark.parametrize(("label", "mode"), TRIED)
def test_every_answer_is_described(operations, label, mode):
    @BOUNDED
    @given(case=operations[label].as_strategy(generation_mode=mode))
    def answered(case):
        answer = case.call_and_validate(checks=CHECKS)
        if answer.status_code >= 400:
            assert answer.json()["error"].endswith(".")

    answered()
