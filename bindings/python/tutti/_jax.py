"""Arrays of jax, which never change: the results that a call would write to one come back as a new one. Imported if jax
    is.
"""
import sys

import numpy as np

from tutti._arrays import is_traced
from tutti._core import Pending


def is_array(value):
    """Whether it is an array of jax. Leaves tracers, which have no values yet, and keys of random numbers to the
    extension, which refuses them.
    """
    return (isinstance(value, sys.modules["jax"].Array) and not is_traced(value)
            and isinstance(value.dtype, np.dtype))


def is_among(values):
    return any(map(is_among, values)) if isinstance(values, (list, tuple)) else is_array(values)


def with_places(values, place):
    """Returns the values. In place of each array of jax stands `place(array)`, an array of numpy."""
    if isinstance(values, (list, tuple)):
        return [with_places(value, place) for value in values]
    return place(values) if is_array(values) else values


def empty_like(array):
    return np.empty(array.shape, array.dtype)


def copied(array):
    return np.array(array)


def filled(places, values):
    """Returns the values. In place of each array of jax stands a new array of jax that is made from its place."""
    if isinstance(values, (list, tuple)):
        return [filled(*pair) for pair in zip(places, values)]
    return sys.modules["jax"].numpy.asarray(places) if is_array(values) else values


class Returned(Pending):
    """The outcome of a call with arrays of jax. The call has written its results to arrays of numpy."""

    def __init__(self, pending, places, values):
        super().__init__(pending)
        self._places, self._values = places, values

    def result(self, timeout=None):
        super().result(timeout)
        return filled(self._places, self._values)


def returned(values, place, submit):
    """The Pending of a call whose results go to the places for these values."""
    places = with_places(values, place)
    return Returned(submit(places), places, values)
