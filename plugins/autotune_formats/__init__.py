"""Formats of libraries that never ran here, as plugins: each module holds all that is known of one library.

==============  =======================================================================================
``openmpi6``    rules of ``coll_tuned`` in JSON
``mvapich``     variables of MVAPICH2, and of MVAPICH 3 and later
``cray``        variables of HPE Cray MPICH
``ucc``         ``ucc.conf``, in the grammar of ``ucc_grammar``
``nccl``        tables of NCCL's and RCCL's example tuner
==============  =======================================================================================

They come in by the entry points in ``pyproject.toml``, as those of any other distribution do.
"""
