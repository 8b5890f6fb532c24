"""What operations along an axis give, in NumPy and in wide numbers."""

import numpy as np


def ordered(x, *, largest=True):
    """Numbers with NaN as the worst."""
    if x.dtype.kind == "f":
        return np.where(np.isnan(x), -np.inf if largest else np.inf, x)
    return x


def best(x, axis, *, largest=True):
    """The lowest place of the largest (smallest) element; a NaN loses against any number."""
    good = ordered(x, largest=largest)
    found = (good.max if largest else good.min)(axis, keepdims=True)
    fits = (good == found) & ~(np.isnan(x) if x.dtype.kind == "f" else np.zeros(x.shape, bool))
    first = np.argmax(fits, axis)
    return np.where(fits.any(axis), first, 0)


def running(function, tiles, axis, *, reverse=False):
    """Each place combined with all before it, one after the other."""
    step = -1 if reverse else 1
    places = [np.moveaxis(each, axis, 0)[::step] for each in tiles]
    values = [tuple(each[0] for each in places)]
    for number in range(1, len(places[0])):
        values.append(function(*values[-1], *(each[number] for each in places)))
    return [np.moveaxis(np.stack(each)[::step], 0, axis) for each in zip(*values, strict=True)]


def prefix_sums(x, axis, *, reverse=False):
    """Running sums in float64 and the language's bound for each."""

    def sums(values):
        turned = np.flip(values, axis) if reverse else values
        found = np.cumsum(turned, axis)
        return np.flip(found, axis) if reverse else found

    wide = x.astype(np.float64)
    counts = sums(np.ones(x.shape))
    return sums(wide), counts * 2.0**-24 * sums(np.abs(wide))
