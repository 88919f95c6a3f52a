"""What programs ask of the API server, read from their code.

Guarantee: a call whose text names no resource is an error, unless `UNNAMED` says what it asks for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
Right = tuple[str, str]  # verb, resource
Constants = Mapping[str, ast.expr]

CLIENTS = {"api", "_api", "client", "_client"}  # names of a KubeClient
METHODS = {  # of a KubeClient: its verbs, and the position of the resource
    "get": (("get",), 1),
    "find": (("get",), 1),
    "list": (("list",), 1),
    "watch": (("list", "watch"), 1),
    "create": (("create",), 0),
    "replace": (("update",), 0),
    "patch": (("patch",), 1),
    "delete": (("delete",), 1),
    "delete_all": (("deletecollection",), 1),
    "request": ((), -1),
    "read": ((), -1),
    "stream": ((), -1),
}
STREAMS = {  # of a KubeClient, on Pods
    "logs": {("get", "pods/log")},
    "follow_logs": {("get", "pods/log")},
    "exec_stream": {("get", "pods/exec"), ("create", "pods/exec")},  # newer API servers ask for both
    "exec_output": {("get", "pods/exec"), ("create", "pods/exec")},
}
FUNCTIONS = {  # that call a client with the resource that they get
    "ensure_owned": (("create", "get"), 1),
    "find_owned": (("get",), 2),
    "_find_own": (("get",), 2),
    "write_status": (("patch",), 1),
    "remove": (("delete",), 2),
    "event": (("list", "watch"), 2),  # kopf.on.event
}
GROUPS = {("list", "swesandboxes"), ("list", "pods")}
LEFTOVERS = ("rayclusters", "swesandboxes", "jobs", "pods")
DISCOVERY = set[Right]()  # every account may ask which kinds are served
CALLERS = set[Right]()  # the calls of this function are among those of `FUNCTIONS`
UNNAMED: dict[str, set[Right]] = {
    "swerl_agent/console/visitors.py:_create": {("create", "tokenreviews"), ("create", "subjectaccessreviews")},
    "swerl_agent/grading/job.py:_delete": {("delete", "jobs"), ("delete", "configmaps")},
    "swerl_agent/sandbox/declaration.py:delete": CALLERS,
    "swerl_agent/sandbox/watch.py:_run_watch": {(verb, each) for verb in ("list", "watch") for _, each in GROUPS},
    "swerl_operator/app.py:_wait_for_crds": DISCOVERY,
    "swerl_operator/checks/prerequisites.py:missing_kuberay": DISCOVERY,
    "swerl_operator/checks/prerequisites.py:missing_objects": {
        ("get", "persistentvolumeclaims"),
        ("get", "configmaps"),
    },
    "swerl_operator/checks/pod_templates.py:_refusal": {("create", "pods")},
    "swerl_operator/checks/volumes.py:volume_problems": {("get", "persistentvolumeclaims")},
    "swerl_operator/evals/observe.py:_find_own": CALLERS,
    "swerl_operator/evals/observe.py:_name_conflicts": {
        ("get", resource) for resource in ("jobs", "configmaps", "serviceaccounts", "pods", "rayclusters")
    },
    "swerl_operator/owned.py:ensure_owned": CALLERS,
    "swerl_operator/owned.py:find_owned": CALLERS,
    "swerl_operator/ray/cleanup.py:count_leftovers": {("list", resource) for resource in LEFTOVERS},
    "swerl_operator/ray/cleanup.py:delete_leftovers": {
        ("deletecollection", resource) for resource in (*LEFTOVERS, "configmaps", "networkpolicies")
    },
    "swerl_operator/sandboxes/api.py:_pages": GROUPS,
    "swerl_operator/sandboxes/api.py:events": {("watch", resource) for _, resource in GROUPS},
    "swerl_operator/sandboxes/api.py:events_version": {("list", "events")},
    "swerl_operator/sandboxes/api.py:pull_events": {("watch", "events")},
    "swerl_operator/sandboxes/api.py:usage": {("list", "pods.metrics.k8s.io")},
    "swerl_operator/status_builder.py:write_status": CALLERS,
}


@dataclass(frozen=True)
class ApiCall:
    """One call in the code."""

    where: str  # file from the package on, and function
    rights: frozenset[Right]
    is_named: bool  # whether its text names the resource


def api_calls(folder: str) -> list[ApiCall]:
    """The calls of the modules in `folder`, or of one module."""
    files = [ROOT / folder] if folder.endswith(".py") else sorted((ROOT / folder).rglob("*.py"))
    found = [call for file in files for call in _calls_of(file)]
    unknown = [call.where for call in found if not call.is_named and call.where not in UNNAMED]
    assert not unknown, f"name the resource in the call, or what it asks for in UNNAMED: {unknown}"
    return found


def rights_of(calls: Sequence[ApiCall]) -> set[Right]:
    """What an account needs for `calls`."""
    return {right for call in calls for right in call.rights}


def _calls_of(file: Path) -> Iterator[ApiCall]:
    tree = _parsed(file)
    constants = dict(_imported(tree, file)) | _constants(tree)
    package = file.relative_to(ROOT).as_posix().partition("/")[2]
    for node, function in _calls(tree, ""):
        rights = _rights(node, constants)
        if rights is not None:
            where = f"{package}:{function}"
            yield ApiCall(where, frozenset(rights or UNNAMED.get(where, set())), bool(rights))


@cache
def _parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def _calls(node: ast.AST, function: str) -> Iterator[tuple[ast.Call, str]]:
    """Each call below `node` and the function that it stands in."""
    for child in ast.iter_child_nodes(node):
        inside = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
        if isinstance(child, ast.Call):
            yield child, function
        yield from _calls(child, inside)


def _rights(call: ast.Call, constants: Constants) -> set[Right] | None:
    """What `call` needs; empty where its text does not say; None for a call of something else."""
    method = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    owner = getattr(call.func, "value", None)
    name = getattr(owner, "attr", getattr(owner, "id", ""))
    if name in CLIENTS and method in STREAMS:
        return STREAMS[method]
    if name in CLIENTS and method in METHODS:
        verbs, position = METHODS[method]
    elif method in FUNCTIONS and name in ("", "self", "on"):
        verbs, position = FUNCTIONS[method]
    else:
        return None
    resource = _resource([*_arguments(call, constants)], position)
    if method == "ensure_owned" and len(call.args) > 3:  # the field that it keeps up to date
        verbs = (*verbs, "patch")
    if resource and (method == "write_status" or any(each.arg == "subresource" for each in call.keywords)):
        resource += "/status"
    return {(verb, resource) for verb in verbs} if resource else set()


def _arguments(call: ast.Call, constants: Constants) -> Iterator[ast.expr]:
    """Positional arguments; a constant tuple that is unpacked counts as its elements."""
    for argument in call.args:
        value = argument.value if isinstance(argument, ast.Starred) else argument
        found = _value(value, constants)
        if isinstance(argument, ast.Starred) and isinstance(found, ast.Tuple):
            yield from (_value(each, constants) for each in found.elts)
        else:
            yield argument if isinstance(argument, ast.Starred) else found


def _resource(arguments: Sequence[ast.expr], position: int) -> str:
    """The resource at `position`; '' where it is not a constant, or where it is unknown what stands before."""
    before = arguments[: position + 1]
    if not 0 <= position < len(arguments) or any(isinstance(each, ast.Starred) for each in before):
        return ""
    found = arguments[position]
    return found.value if isinstance(found, ast.Constant) and isinstance(found.value, str) else ""


def _value(node: ast.expr, constants: Constants) -> ast.expr:
    """What a constant's name, or an element of a constant tuple, stands for."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        found = _value(node.value, constants)
        index = node.slice.value
        return found.elts[index] if isinstance(found, ast.Tuple) and isinstance(index, int) else node
    return constants.get(node.id, node) if isinstance(node, ast.Name) else node


def _imported(tree: ast.Module, file: Path) -> Iterator[tuple[str, ast.expr]]:
    """Constants that `file` imports from other modules of its package."""
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and statement.level and statement.module:
            source = file.parents[statement.level - 1].joinpath(*statement.module.split(".")).with_suffix(".py")
            found = _constants(_parsed(source)) if source.is_file() else {}
            yield from ((each.name, found[each.name]) for each in statement.names if each.name in found)


def _constants(tree: ast.Module) -> dict[str, ast.expr]:
    return {name: value for statement in tree.body for name, value in _constant(statement)}


def _constant(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    if not isinstance(statement, ast.Assign):
        return
    for target in statement.targets:
        if isinstance(target, ast.Name):
            yield target.id, statement.value
        elif isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            yield from (
                (each.id, value)
                for each, value in zip(target.elts, statement.value.elts, strict=True)
                if isinstance(each, ast.Name)
            )
