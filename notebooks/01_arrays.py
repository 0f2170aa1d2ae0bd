# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Arrays that change in place, on JAX
#
# `rtx_jax` is the array API standard on JAX and XLA. This notebook shows three things on whatever device JAX finds
# here: writing into an array, `jit` of a function that writes, and scikit-learn running on it.
#
# It runs in Colab and on a plain machine. The next cell installs `rtx_jax` where it is missing, and does nothing where
# it is there.

# %%
import importlib.util
import os
import subprocess
import sys

if importlib.util.find_spec("rtx_jax") is None:
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "rtx-jax[demo]"], check=True)

os.environ["SCIPY_ARRAY_API"] = "1"  # SciPy reads this when it is first imported

# %%
import time

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import rtx_jax as xp

print("JAX", jax.__version__, "on", jax.devices()[0])

# %% [markdown]
# ## Writing into an array
#
# A `jax.Array` refuses `x[i] = v`:

# %%
try:
    jnp.zeros(3)[0] = 1.0
except TypeError as error:
    print(str(error).splitlines()[0])

# %% [markdown]
# An `Array` takes every key that NumPy takes, and keeps its identity, dtype and shape:

# %%
x = xp.zeros((3, 4), dtype=xp.float32)
same = x
x[0, 1:3] = 5.0
x[:, -1] += 1.0
x[x == 0] = -1.0
print(x)
print(same is x, x.dtype, isinstance(x.jax, jax.Array))

# %% [markdown]
# What was read is independent of where it came from, and a view that NumPy took earlier keeps its values:

# %%
row = x[0]
view = np.asarray(x)
x[0] = 100.0
print(row, view[0], x[0], sep="\n")

# %% [markdown]
# Where nobody else can see the buffer, the write happens in it. So its cost does not grow with the array, while
# `x.at[i].set(v)` makes a new array each time:


# %%
def microseconds(function, times=200):
    """The median time of a call, after two calls that may compile."""
    taken = []
    for number in range(times + 2):
        start = time.perf_counter()
        function()
        if number >= 2:
            taken.append(time.perf_counter() - start)
    return 1e6 * float(np.median(taken))


for size in (10, 10_000, 1_000_000):
    ours, theirs = xp.zeros(size, dtype=xp.float32), jnp.zeros(size, dtype=jnp.float32)

    def write(x=ours):
        x[3] = 1.0

    def update(x=theirs):
        x.at[3].set(1.0).block_until_ready()

    print(
        f"{size:>9,} elements: x[3] = v {microseconds(write):7.1f} us   x.at[3].set(v) {microseconds(update):7.1f} us"
    )

# %% [markdown]
# ## `jit` of a function that writes
#
# The function changes its argument, and so does the compiled one. Everything in it becomes one compiled call:


# %%
@xp.jit
def heat(temperature, steps_per_call=10):
    for _ in range(steps_per_call):
        inner = temperature[1:-1]
        inner = inner + 0.25 * (temperature[:-2] - 2 * inner + temperature[2:])
        temperature[1:-1] = inner


rod = xp.zeros(100, dtype=xp.float32)
rod[0] = 1.0
profiles = [np.asarray(rod).copy()]
for _ in range(4):
    for _ in range(30):
        heat(rod)
    profiles.append(np.asarray(rod).copy())

figure, axes = plt.subplots(figsize=(7, 3))
for number, profile in enumerate(profiles):
    axes.plot(profile, label=f"after {300 * number} steps")
axes.set_xlabel("place on the rod")
axes.set_ylabel("temperature")
axes.legend()
plt.show()

# %% [markdown]
# ## scikit-learn on NumPy and on rtx_jax
#
# One pipeline, two namespaces. Nothing in it knows which it runs on:

# %%
import sklearn
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

digits, labels = load_digits(return_X_y=True)
parts = train_test_split(digits, labels, random_state=0, stratify=labels)


def pipeline(namespace):
    """Scores and milliseconds (first call, then) of each estimator on the arrays of one namespace."""
    train, test, y_train, y_test = (namespace.asarray(part) for part in parts)

    with sklearn.config_context(array_api_dispatch=True):
        scaler = StandardScaler().fit(train)
        scaled, scaled_test = scaler.transform(train), scaler.transform(test)

    def scale():
        return float(namespace.std(StandardScaler().fit_transform(train)))

    def reduce():
        return float(namespace.sum(PCA(10, svd_solver="full").fit(scaled).explained_variance_ratio_))

    def discriminate():
        model = LinearDiscriminantAnalysis().fit(scaled, y_train)
        return float(accuracy_score(y_test, model.predict(scaled_test)))

    def ridge():
        model = RidgeClassifier(solver="svd").fit(scaled, y_train)
        return float(accuracy_score(y_test, model.predict(scaled_test)))

    results = {}
    with sklearn.config_context(array_api_dispatch=True):
        for step in (scale, reduce, discriminate, ridge):
            start = time.perf_counter()
            score = step()
            first = 1e3 * (time.perf_counter() - start)
            results[step.__name__] = score, first, microseconds(step, times=5) / 1e3
    return results


on_numpy, on_xla = pipeline(np), pipeline(xp)
for step in on_numpy:
    (score, first, then), (score_xla, first_xla, then_xla) = on_numpy[step], on_xla[step]
    print(
        f"{step:>13}: score {score:.6f} {score_xla:.6f}   "
        f"ms first {first:7.1f} {first_xla:7.1f}   then {then:6.1f} {then_xla:6.1f}"
    )
    assert abs(score - score_xla) < 1e-6

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.5), layout="constrained")
places = np.arange(len(on_numpy))
left.bar(places - 0.2, [score for score, _, _ in on_numpy.values()], 0.38, color="#9ca3af", label="NumPy")
left.bar(places + 0.2, [score for score, _, _ in on_xla.values()], 0.38, color="#2563eb", label="rtx_jax")
left.set_title("Score of each step: equal", loc="left")
right.scatter([then for _, _, then in on_numpy.values()], places, s=70, color="#9ca3af", label="NumPy")
right.scatter([then for _, _, then in on_xla.values()], places, s=70, color="#2563eb", label="rtx_jax")
right.scatter(
    [first for _, first, _ in on_xla.values()], places, s=55, color="white", edgecolor="#2563eb", label="first call"
)
right.set_xscale("log")
right.set_yticks(places, list(on_numpy))
right.invert_yaxis()
right.set_xlabel("milliseconds, logarithmic")
right.set_title("Time of each step", loc="left")
left.set_xticks(places, list(on_numpy))
left.set_ylim(0, 1.2)
left.legend(ncols=2, loc="upper left")
right.legend()
plt.show()

# %% [markdown]
# The first call on `rtx_jax` compiles; `xp.enable_compilation_cache()` keeps what it compiled for the next process.
# On a GPU or TPU nothing above changes: JAX's default device is taken, and `device=` chooses another.
