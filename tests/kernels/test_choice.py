"""The choice among implementations: the first that can, one notice, and refusals with every reason."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

from rtx_jax.errors import BackendLimitation, FallbackWarning
from rtx_jax.kernels.choice import Candidate, choose
from rtx_jax.kernels.target import Target

TPU = Target("tpu", "TPU v5 lite")


def candidates(*reasons: str, considered: bool = True, plain: tuple[str, ...] = ()) -> tuple[Candidate[str], ...]:
    return (
        Candidate("pallas", "the kernel", reasons, considered=considered),
        Candidate("xla", "plain", plain, plain=True),
    )


def test_auto_takes_the_first_that_can() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert choose("op", "auto", TPU, candidates()) == "the kernel"
        assert choose("op", "auto", TPU, candidates(considered=False)) == "plain"
        assert choose("op", "xla", TPU, candidates("no", considered=False)) == "plain"
        assert choose("op", "pallas", TPU, candidates(considered=False)) == "the kernel"


def test_no_more_are_looked_at_than_it_takes() -> None:
    def one_after_the_other() -> Iterator[Candidate[str]]:
        yield candidates()[0]
        raise AssertionError

    assert choose("op", "auto", TPU, one_after_the_other()) == "the kernel"


def test_what_is_looked_for_comes_first_where_one_has_it() -> None:
    assert choose("op", "auto", TPU, candidates(), suits=lambda choice: choice == "plain") == "plain"
    assert choose("op", "auto", TPU, candidates(), suits=lambda choice: False) == "the kernel"


def test_auto_says_once_why_no_kernel_can() -> None:
    with pytest.warns(FallbackWarning, match=r"op on tpu runs as plain XLA.*\(pallas: for a test; and this\)"):
        assert choose("op", "auto", TPU, candidates("for a test", "and this")) == "plain"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert choose("op", "auto", TPU, candidates("for a test", "and this")) == "plain"


def test_one_that_was_asked_for_is_refused_with_every_reason() -> None:
    with pytest.raises(BackendLimitation) as caught:
        choose("op", "pallas", TPU, candidates("one", "two"), partitioned=True)
    assert caught.value.operation == "op" and caught.value.fields["backend"] == "pallas"
    for part in ("'pallas' on TPU v5 lite", "one", "two", "jax.shard_map"):
        assert part in str(caught.value)


def test_auto_is_refused_where_none_can() -> None:
    with pytest.raises(BackendLimitation, match="pallas: one.*xla: two.*Leave out what they cannot do"):
        choose("op", "auto", TPU, candidates("one", plain=("two",)))


def test_what_xla_divides_is_plain() -> None:
    assert choose("op", "xla", TPU, candidates(), partitioned=True) == "plain"
    with pytest.warns(FallbackWarning, match="shard_map"):
        assert choose("another op", "auto", TPU, candidates(), partitioned=True) == "plain"
