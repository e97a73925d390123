"""Registers tutti's stores with Apache MXNet: a script changes its store's type to "dist_sync_mpi", and no more.

    import tutti.mxnet
    trainer = gluon.Trainer(net.collect_params(), "sgd", kvstore="dist_sync_mpi")

Start it with mpirun. `python -m tutti SCRIPT` registers them for a script that does not import tutti. Under tutti's
launcher every name that begins with "dist" is tutti's; otherwise MXNet's own types stay as they are.
"""
from tutti.mxnet._errors import register_errors
from tutti.mxnet._names import register_stores
from tutti.mxnet._training import fit_training
from tutti.mxnet.data import SplitSampler, split_and_load
from tutti.mxnet.joining import join

__all__ = ["SplitSampler", "join", "split_and_load"]

register_errors()
register_stores()
fit_training()
