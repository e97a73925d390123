# Sourced by the other scripts: what builds and MPI jobs on one machine need from the environment.

# Objects are found in the cache again when the same sources lie in another folder.
export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$PWD} CCACHE_NOHASHDIR=1

# More ranks than cores, each free to use all of them. Open MPI refuses root unless told twice.
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
if [[ $EUID -eq 0 ]]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
