"""Documents of version 0.1, whose remarks and reasons were text, in today's form."""

from __future__ import annotations

import re
from typing import Any

from streamhalf.results.base import finite
from streamhalf.results.certificate import AdviceCode
from streamhalf.results.codes import Role, Stage, StopReason, Transform

SCHEMAS = {
    "streamhalf-fit-1": "streamhalf-fit-2",
    "streamhalf-certificate-1": "streamhalf-certificate-2",
    "streamhalf-test-1": "streamhalf-test-2",
}

_STOPS = (
    (r"reached the scale of eps", StopReason.REACHED_EPS),
    (r"noise dominates at delta (\S+)", StopReason.NOISE_DOMINATES),
    (r"no further progress at delta (\S+)", StopReason.NO_PROGRESS),
    (r"largest number of updates", StopReason.MOST_UPDATES),
    (r"rows for updates are used up", StopReason.ROWS_USED_UP),
    (r"too few rows", StopReason.TOO_FEW_ROWS),
    (r"", StopReason.TESTER_REJECTED),
)
_ADVICE = (
    (r"the bound is tight", AdviceCode.TIGHT, ""),
    (r"about ([\d,]+) rows", AdviceCode.MORE_ROWS, "rows"),
    (r"certificate_degree (\d+)", AdviceCode.HIGHER_DEGREE, "degree"),
    (r"", AdviceCode.NOTHING, ""),
)


def upgrade(content: dict[str, Any]) -> dict[str, Any]:
    """The document in today's form; what does not fit is found when that is read."""
    new = {**content, "schema": SCHEMAS[content["schema"]]}
    whitened, whitening = new.pop("whitened", None), new.pop("whitening", None)
    kind = Transform.ISOTROPIC if whitened or whitening else Transform.STORED
    numbers = whitening if isinstance(whitening, dict) else {}
    new["transform"] = {
        "kind": kind,
        "centre": numbers.get("mean", ()),
        "matrix": numbers.get("matrix", ()),
    }
    if "stopped_because" in new:
        new["stop"] = _stop(str(new.pop("stopped_because")))
    if isinstance(new.get("testers"), list):
        new["testers"] = [_test_result(one) for one in new["testers"]]
    if isinstance(new.get("notices"), list):
        new["notices"] = [_notice(one) for one in new["notices"]]
    if isinstance(new.get("certificate"), dict) and "advice" in new["certificate"]:
        advice = _advice(str(new["certificate"]["advice"]))
        new["certificate"] = {**new["certificate"], "advice": advice}
    return new


def _stop(text: str) -> dict[str, Any]:
    for pattern, reason in _STOPS:
        if found := re.match(pattern, text):
            return {"reason": reason, "delta": float(found[1]) if found.groups() else None}
    raise AssertionError("the last pattern matches everything")


def _advice(text: str) -> dict[str, Any]:
    for pattern, code, field in _ADVICE:
        if found := re.match(pattern, text):
            number = {field: int(found[1].replace(",", ""))} if field else {}
            return {"code": code, **number}
    raise AssertionError("the last pattern matches everything")


def _notice(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    if found := re.match(r"all labels are ([+-]1)", text):
        return {"type": "one-class", "label": int(found[1])}
    if found := re.match(r"(.*): labels are 0/1; 0 is read as -1", text):
        return {"type": "labels-are-bits", "array": found[1]}
    return {"type": "remark", "text": text}


def _test_result(old: Any) -> Any:
    if not isinstance(old, dict):
        return old
    new = {**old}
    stage = str(new.get("pass_name", "")).partition("-")[0]
    new["stage"] = stage if stage in set(Stage) else None
    remark = str(new.pop("remark", ""))
    for name in ("statistic", "limit", "null_quantile"):
        new[name] = _number(new.get(name))
    if found := re.search(r"candidate (\d+)", remark):
        new["candidate"] = int(found[1])
    if found := re.search(r"eta (\S+)", remark):
        new["scale"] = float(found[1])
    if found := re.search(r"sketched on (\d+) directions", remark):
        new["directions"] = int(found[1])
    for text, role in (
        ("refinement", Role.REFINEMENT),
        ("an extra test", Role.EXTRA),
        ("sampling rows", Role.FALLBACK),
        ("not exchangeable", Role.ADVISORY),
    ):
        if text in remark:
            new["role"] = role
            break
    if isinstance(new.get("evidence"), list):
        new["evidence"] = [_evidence(one) for one in new["evidence"]]
    return new


def _evidence(old: Any) -> Any:
    if not isinstance(old, dict):
        return old
    new = {key: value for key, value in old.items() if key not in ("name", "direction")}
    for name in ("observed", "expected", "deviation", "limit"):
        new[name] = _number(new.get(name))
    return {"subject": _subject(str(old.get("name", ""))), **new}


def _subject(name: str) -> dict[str, Any]:
    """A product of features by its variables; anything else keeps its name."""
    if not re.fullmatch(r"[xu]\d+(\^\d)?(·[xu]\d+(\^\d)?)*", name):
        return {"type": "named", "name": name}
    powers = re.findall(r"[xu](\d+)(?:\^(\d))?", name)
    variables = [int(number) - 1 for number, power in powers for _ in range(int(power or 1))]
    return {"type": "moment", "variables": variables, "sketched": name.startswith("u")}


def _number(value: Any) -> Any:
    """What is no number was written as null."""
    return finite(float("nan")) if value is None else value
