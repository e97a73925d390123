"""The package's own threads, which run callbacks of calls that are done: the library's threads must not wait."""
import functools
import os

from tutti import _core

#: At the end of the program, a callback that waits in vain is left behind after this many seconds.
PATIENCE = 1.0
#: Flags of the code of coroutines and asynchronous generators: inspect.CO_COROUTINE and CO_ASYNC_GENERATOR.
ASYNC = 0x80 | 0x200
#: At the end of the program: from now on nobody runs callbacks.
is_over = False
#: The queues of this process, each with its thread.
started = []


def refuse_async(callback):
    function = callback
    while isinstance(function, functools.partial):
        function = function.func
    if not hasattr(function, "__code__"):
        function = getattr(type(function), "__call__", None)
    code = getattr(function, "__code__", None)
    if code is not None and code.co_flags & ASYNC:
        raise TypeError(f"then: {callback!r} is an async def, and nobody would await its coroutine; pass a function, "
                        "or write `await pending` in a coroutine")


def start(queue):
    import threading  # pylint: disable=import-outside-toplevel  # import tutti stays quick
    thread = threading.Thread(target=_run, args=(queue,), name=queue.name, daemon=True)
    thread.start()
    started.append((queue, thread))


def _run(queue):
    while (job := queue.next()) is not None:
        callback, error = job
        try:
            callback(error)
        except BaseException as raised:  # pylint: disable=broad-except
            _core.report(raised, callback)
        del job, callback, error  # so that their objects do not live until the next one comes


def stop():
    """Runs the callbacks of calls that are done before the interpreter ends."""
    global is_over  # pylint: disable=global-statement
    is_over = True
    for queue, thread in started:
        queue.close()
        thread.join(PATIENCE)


os.register_at_fork(after_in_child=started.clear)  # a child has none of the threads
