"""Words for implementations as the tests run them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rtx_jax.kernels.decode import select


@pytest.fixture(autouse=True, scope="session")
def _words() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for word in ("blocked_xla", "interpreted_triton", "interpreted_tpu"):
            patch.setitem(select.MODULES, word, f"tests.kernels.decode.{word}")
        yield
