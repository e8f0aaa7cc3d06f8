"""What judges a module finds what is wrong with it."""

import pytest
from layers import unvalidated

import symgrad as sg


@pytest.mark.parametrize("driver", ["_back", "_back_per_sample", "_tangent", "_compact_W"])
def test_a_wrong_product_or_compact_form_is_found(driver):
    jac = unvalidated("x: input[n]\nW: param[m, n]\nb: param[m]\ny = tanh(W @ x + b)", plain=True)
    right = getattr(jac.module, driver)

    def doubled(*args):
        found = right(*args)
        if isinstance(found, dict):
            return {n: 2 * g for n, g in found.items()}
        return tuple(2 * y for y in found) if isinstance(found, tuple) else 2 * found

    setattr(jac.module, driver, doubled)
    with pytest.raises(sg.ValidationError, match=r"vjp|jvp|pullback|jac_W"):
        sg.check(jac)


def test_a_module_without_one_of_its_functions_is_not_as_it_was_written(tmp_path):
    path = tmp_path / "h.py"
    sg.compile("tanh(W x)", order=2, path=path, check=False)
    text = path.read_text(encoding="utf-8")
    for name in ("vjp", "jac_W_compact", "hvp", "hess_W_W_compact"):
        path.write_text(text.replace(f"def {name}(", f"def away_{name}("), encoding="utf-8")
        with pytest.raises(sg.ArgumentError, match=f"it has no {name}"):
            sg.check(path)
