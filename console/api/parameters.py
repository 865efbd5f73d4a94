"""Parameters: what RabbitMQ keeps of its plugins. Here only limits of vhosts and operator policies are any."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from console.api.policies import facts as policy_facts
from console.broker import Facts
from console.http.access import Called
from console.http.answers import answer
from console.http.caller import Caller
from console.http.errors import HttpError, not_found
from console.http.listing import Listed, listed
from console.http.segments import Segment
from router.model.resource_limits import Holder

router = APIRouter(prefix="/api", tags=["parameters"])

OPERATOR_POLICY, VHOST_LIMITS = "operator_policy", "vhost-limits"
ELSEWHERE = {OPERATOR_POLICY: "/api/operator-policies", VHOST_LIMITS: "/api/vhost-limits"}
"""Where the parameters that mean something are set."""


@router.get("/parameters")
async def parameters(caller: Called, wanted: Listed) -> Response:
    """The parameters of all vhosts of the user."""
    return listed(_of(caller, _vhosts(caller)), wanted)


@router.get("/parameters/{component}")
async def parameters_of_component(caller: Called, component: Segment, wanted: Listed) -> Response:
    """The parameters of a component."""
    return listed(_of(caller, _vhosts(caller), component), wanted)


@router.get("/parameters/{component}/{vhost}")
async def parameters_of_vhost(caller: Called, component: Segment, vhost: Segment, wanted: Listed) -> Response:
    """The parameters of a component in a vhost."""
    caller.must_make_policies(vhost)
    return listed(_of(caller, [vhost], component), wanted)


@router.get("/parameters/{component}/{vhost}/{name}")
async def parameter(caller: Called, component: Segment, vhost: Segment, name: Segment) -> Response:
    """A parameter."""
    caller.must_make_policies(vhost)
    for found in _of(caller, [vhost], component):
        if found["name"] == name:
            return answer(found)
    raise not_found()


@router.put("/parameters/{component}/{vhost}/{name}")
async def put(caller: Called, component: Segment, vhost: Segment, name: Segment) -> Response:
    """No component takes parameters."""
    caller.must_make_policies(vhost)
    raise _refused(component, name)


@router.delete("/parameters/{component}/{vhost}/{name}")
async def delete(caller: Called, component: Segment, vhost: Segment, name: Segment) -> Response:
    """No component has parameters to delete here."""
    caller.must_make_policies(vhost)
    raise _refused(component, name) if component in ELSEWHERE else not_found()


@router.get("/global-parameters")
async def global_parameters(caller: Called, wanted: Listed) -> Response:
    """The parameters of the cluster; none."""
    if not caller.makes_policies:
        raise HttpError(401, "Not policymaker user")
    return listed([], wanted)


@router.get("/global-parameters/{_name}")
@router.delete("/global-parameters/{_name}")
async def global_parameter(caller: Called, _name: str) -> Response:
    """There is none."""
    caller.must_administer()
    raise not_found()


@router.put("/global-parameters/{name}")
async def put_global_parameter(caller: Called, name: Segment) -> Response:
    """There are none."""
    caller.must_administer()
    raise _refused("global", name)


def _refused(component: str, name: str) -> HttpError:
    where = ELSEWHERE.get(component)
    return HttpError(
        400, f"parameter '{name}' of {component} has no meaning here" if where is None else f"it is set at {where}"
    )


def _vhosts(caller: Caller) -> list[str]:
    if not caller.makes_policies:
        raise HttpError(401, "Not policymaker user")
    return [vhost for vhost in caller.vhosts() if caller.is_administrator or caller.opens(vhost)]


def _of(caller: Caller, vhosts: list[str], component: str | None = None) -> list[Facts]:
    """Return the parameters of vhosts, of all components or one."""
    topology, found = caller.broker.topology, []
    for vhost in vhosts:
        for policy in topology.policies(vhost, operator=True):
            value = {name: each for name, each in policy_facts(policy).items() if name not in ("vhost", "name")}
            found.append({"value": value, "vhost": vhost, "component": OPERATOR_POLICY, "name": policy.name})
        if limits := topology.limits.of(Holder("vhost", vhost)):
            found.append({"value": dict(limits), "vhost": vhost, "component": VHOST_LIMITS, "name": "limits"})
    return [each for each in found if component in (None, each["component"])]
