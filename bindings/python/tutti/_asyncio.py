"""Implements `await pending`. It is imported when it is first used, because asyncio takes longer to import than all the
rest.
"""
import asyncio

from tutti import _core


def wait(pending):
    """The generator behind Pending.__await__. Returns the call's result, or raises the call's error."""
    if not pending.done():
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        _core.on_wakeups(pending, lambda _: _wake(loop, future))
        yield from future
    return pending.result()


def _wake(loop, future):
    try:
        loop.call_soon_threadsafe(_settle, future)
    except RuntimeError:
        if not loop.is_closed():  # nobody waits on a closed loop
            raise


def _settle(future):
    if not future.done():  # it may have been cancelled
        future.set_result(None)
