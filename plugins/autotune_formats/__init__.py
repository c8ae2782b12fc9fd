"""Provide formats of libraries that never ran here, as plugins: each module covers one library.

==============  =======================================================================================
``openmpi6``    rules of ``coll_tuned`` in JSON
``mvapich``     variables of MVAPICH2, and of MVAPICH 3 and later
``ucc``         ``ucc.conf``, in the grammar of ``ucc_grammar``
==============  =======================================================================================

The entry points in ``pyproject.toml`` register them, as those of any other distribution do.
"""
