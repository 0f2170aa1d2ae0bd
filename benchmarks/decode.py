"""What a step of decoding costs, against a copy of the cache that it reads and against what else attends to a cache.

Each call attends with one or a few queries to a cache of keys and values. Sides run in turn, call after call, and the
least time of each counts. `share` is the bytes of the keys and values that are seen, over the time, as a share of the
rate at which the device copies that many bytes in the same run (a copy reads and writes them).
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import _common
import jax
import jax.numpy as jnp
import numpy as np

from rtx_jax.kernels.decode import decode_attention, paged_attention


@dataclass(frozen=True)
class Setting:
    """One shape of a call: B rows, T queries, N and K heads of size H, S slots of which `seen` are filled."""

    name: str
    b: int = 1
    t: int = 1
    n: int = 8
    k: int = 8
    h: int = 128
    s: int = 8192
    seen: int = 8192
    dtype: str = "float32"
    cache: str = "float32"
    layout: str = "BTNH"
    page: int = 0
    window: int | None = None


SETTINGS = (
    Setting("one query"),
    Setting("one query, heads first", layout="BNTH"),
    Setting("four query heads to a key head", n=32),
    Setting("a cache that is a quarter full", s=32768),
    Setting("a window of 1024", window=1023),
    Setting("four rows", b=4, s=2048, seen=2048),
    Setting("bfloat16", dtype="bfloat16", cache="bfloat16"),
    Setting("int8", cache="int8"),
    Setting("float8", cache="float8_e4m3fn"),
    Setting("pages of 16", page=16),
    Setting("int8 in pages of 16", cache="int8", page=16),
    Setting("eight queries", t=8),
)


def sides(setting: Setting) -> tuple[dict[str, Callable[[], object]], int]:
    """Return what is timed, by name, and the bytes of keys and values that a call must read."""
    draw = np.random.default_rng(0)
    b, t, n, k, h, s = setting.b, setting.t, setting.n, setting.k, setting.h, setting.s
    shapes = ((b, t, n, h), (b, s, k, h)) if setting.layout == "BTNH" else ((b, n, t, h), (b, k, s, h))
    query = jnp.asarray(draw.normal(size=shapes[0]), setting.dtype)
    key, value = (jnp.asarray(np.clip(32 * draw.normal(size=shapes[1]), -127, 127), setting.cache) for _ in range(2))
    lengths = jnp.full((b,), setting.seen, np.int32)
    scales = {}
    if jnp.dtype(setting.cache).itemsize == 1:
        scales = {name: jnp.full(shapes[1][:3], 1 / 32, np.float32) for name in ("key_scale", "value_scale")}
    options = {"layout": setting.layout, "window": None if setting.window is None else (setting.window, None)}
    found: dict[str, Callable[[], object]] = {}
    if setting.page:
        entries = s // setting.page
        table = jnp.asarray(draw.permutation(b * entries).reshape(b, entries), np.int32)
        pages = [x.reshape(b * entries, setting.page, *x.shape[2:]) for x in (key, value)]
        paged = {name: x.reshape(b * entries, setting.page, k) for name, x in scales.items()}
        run = jax.jit(functools.partial(paged_attention, **options))
        found["ours"] = lambda: run(query, *pages, table, lengths, **paged)
    else:
        step = jax.jit(functools.partial(decode_attention, **options))
        found["ours"] = lambda: step(query, key, value, lengths, **scales)
    if not setting.page and setting.layout == "BTNH":
        window = None if setting.window is None else (setting.window, 0)

        @jax.jit
        def peer(query: jax.Array, key: jax.Array, value: jax.Array, lengths: jax.Array, scales: dict) -> jax.Array:
            if scales:
                key = (key.astype(np.float32) * scales["key_scale"][..., None]).astype(query.dtype)
                value = (value.astype(np.float32) * scales["value_scale"][..., None]).astype(query.dtype)
            return jax.nn.dot_product_attention(
                query, key, value, key_value_seq_lengths=lengths, local_window_size=window
            )

        if setting.window is None and setting.seen == setting.s:
            found["jax.nn"] = lambda: peer(query, key, value, lengths, scales)
        elif setting.window is None:
            found["jax.nn, all slots"] = lambda: peer(query, key, value, lengths, scales)
    seen = setting.seen if setting.window is None else min(setting.seen, setting.window + t)
    size = 2 * b * seen * k * (h * key.dtype.itemsize + (4 if scales else 0))
    words = jnp.ones(size // 4, np.float32)
    # Given away, so that it is copied within memory that is there.
    copy = jax.jit(lambda x: x + 1, donate_argnums=0)
    held = [words]

    def copied() -> object:
        held[0] = copy(held[0])
        return held[0]

    found["copy"] = copied
    found.update(_torch(setting, seen))
    return found, size


def _torch(setting: Setting, seen: int) -> dict[str, Callable[[], object]]:
    """Return torch's call where torch is installed and has it, on a CPU alone."""
    if setting.page or setting.window or setting.dtype != setting.cache or jax.devices()[0].platform != "cpu":
        return {}
    try:
        import torch
    except ImportError:
        return {}
    attend = torch.nn.functional.scaled_dot_product_attention
    dtype = getattr(torch, setting.dtype)
    query = torch.randn(setting.b, setting.n, setting.t, setting.h).to(dtype)
    # torch has no lengths: it gets a cache that is cut to what is filled, which a loop could not do for free.
    key, value = (torch.randn(setting.b, setting.k, seen, setting.h).to(dtype) for _ in range(2))
    if setting.t > 1:
        mask = torch.arange(seen) <= torch.arange(setting.t)[:, None] + seen - setting.t
        return {"torch": lambda: attend(query, key, value, attn_mask=mask, enable_gqa=setting.n != setting.k)}
    return {"torch": lambda: attend(query, key, value, enable_gqa=setting.n != setting.k)}


def measure(found: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the least time of each side in microseconds; they run in turn."""
    best: dict[str, float] = {}
    for run in found.values():
        for _ in range(3):
            jax.block_until_ready(run())
    for _ in range(rounds):
        for name, run in found.items():
            start = time.perf_counter()
            jax.block_until_ready(run())
            best[name] = min(best.get(name, np.inf), (time.perf_counter() - start) * 1e6)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--only", default="", help="settings whose name has this text")
    parser.add_argument("--output", type=Path, default=_common.ROOT / "benchmarks" / "results")
    arguments = parser.parse_args()
    report = _common.Report("decode", arguments.output)
    for setting in SETTINGS:
        if arguments.only not in setting.name:
            continue
        found, size = sides(setting)
        best = measure(found, arguments.rounds)
        ratios = {name: time_us / best["ours"] for name, time_us in best.items() if name not in ("ours", "copy")}
        # A copy moves each byte twice.
        share = best["copy"] / 2 / best["ours"]
        report.add(
            setting.name,
            ours_us=best["ours"],
            gb_per_s=size / best["ours"] / 1e3,
            share_of_copy=share,
            times_faster_than=ratios,
        )
        others = ", ".join(f"{ratio:.2f} times faster than {name}" for name, ratio in ratios.items())
        print(
            f"{setting.name:32} {best['ours']:9.0f} us {size / best['ours'] / 1e3:6.1f} GB/s, "
            f"{share:.2f} of the copy rate{', ' if others else ''}{others}"
        )
    report.save()


if __name__ == "__main__":
    main()
