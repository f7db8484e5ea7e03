"""Reduces each tensor to a few random projections (sums of its elements with pseudo-random signs). These are small, and distances between
tensors can be estimated from them."""
import numpy as np

PROJECTIONS = 64


def mix(x):
    """Returns a hash of each element of an array of uint64: the finaliser of splitmix64 (Steele, Lea and Flood, 2014)."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def name_hash(name):
    """FNV-1a, 64 bits."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = ((value ^ byte) * 0x100000001B3) & (2**64 - 1)
    return value


def project(name, values):
    """Returns PROJECTIONS sums of the elements. In sum k, bit k of a hash of the tensor's name and of the index i is the sign of element
    i."""
    flat = values.reshape(-1).astype(np.float64)
    with np.errstate(over="ignore"):
        bits = mix(np.uint64(name_hash(name)) + np.arange(1, flat.size + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    sums = np.empty(PROJECTIONS)
    for k in range(PROJECTIONS):
        sign = 1.0 - 2.0 * ((bits >> np.uint64(k)) & np.uint64(1)).astype(np.float64)
        sums[k] = float(np.dot(sign, flat))
    return sums


def norm(tensors):
    return float(np.sqrt(sum(float(np.sum(t * t)) for t in tensors)))


def relative_error(values, reference):
    """Returns the largest difference between two values of the same step, relative to the expected value."""
    return max(abs(a - b) / abs(b) for a, b in zip(values, reference))
