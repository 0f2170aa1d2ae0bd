"""Threefry-2x32 with 20 rounds in NumPy (Salmon et al. 2011), and the way JAX counts with it."""

import numpy as np

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def threefry2x32(key, high, low):
    """Return the two words of each counter ``(high, low)``."""
    k0, k1 = np.uint32(key[0]), np.uint32(key[1])
    schedule = (k0, k1, k0 ^ k1 ^ np.uint32(0x1BD11BDA))
    with np.errstate(over="ignore"):
        x = np.asarray(high, np.uint32) + schedule[0]
        y = np.asarray(low, np.uint32) + schedule[1]
        for i in range(5):
            for rotation in _ROTATIONS[i % 2]:
                x = x + y
                y = (y << np.uint32(rotation)) | (y >> np.uint32(32 - rotation))
                y = x ^ y
            x = x + schedule[(i + 1) % 3]
            y = y + schedule[(i + 2) % 3] + np.uint32(i + 1)
    return x, y


def fold_in(key, step):
    """Return the key that `jax.random.fold_in` gives."""
    return np.array(threefry2x32(key, 0, step), np.uint32)


def split(key, num=2):
    """Return the keys that `jax.random.split` gives."""
    return np.stack(threefry2x32(key, np.zeros(num, np.uint32), np.arange(num, dtype=np.uint32)), axis=-1)


def words(key, count):
    """Return `count` random words, numbered so that the number of devices does not matter."""
    x, y = threefry2x32(key, np.zeros(count, np.uint32), np.arange(count, dtype=np.uint32))
    return x ^ y
