"""The front end's files make one module, agree about names, and ask nothing of the network."""

import re
from collections import Counter

from labkit.widgets.assets import CSS, ESM, PARTS, PREDICTION_CSS, PREDICTION_ESM


def test_the_parts_make_one_module() -> None:
    assert ESM.count("export ") == 1
    assert ESM.rstrip().endswith("export default { render };")
    assert not re.search(r"^\s*import\b|\bimport\(|\brequire\(", ESM, re.M)
    assert len(PARTS) == len(set(PARTS))


def test_no_name_is_declared_twice() -> None:
    names = re.findall(r"^(?:function|const|let|class) (\w+)", ESM, re.M)
    assert [name for name, count in Counter(names).items() if count > 1] == []


def test_nothing_is_fetched_and_no_data_becomes_markup() -> None:
    for word in (
        "fetch(",
        "XMLHttpRequest",
        "WebSocket",
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "eval(",
        "document.write",
    ):
        assert word not in ESM + PREDICTION_ESM
    assert re.findall(r"https?://[^\"]+", ESM) == ["http://www.w3.org/2000/svg"], "a namespace, not an address"
    assert not re.search(r"https?://|\bimport\b", PREDICTION_ESM)
    assert "url(" not in CSS + PREDICTION_CSS
    assert "@import" not in CSS + PREDICTION_CSS


def test_every_class_name_is_our_own() -> None:
    assert all(name.startswith("xdp-") for name in re.findall(r"\.([a-z][\w-]*)(?=[^{}]*\{)", CSS))
