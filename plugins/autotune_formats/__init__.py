"""Provide file formats of libraries with which this project was never run, in one module for each library.

==============  =======================================================================================
``openmpi6``    rules of ``coll_tuned`` in JSON
``mvapich``     variables of MVAPICH2, and of MVAPICH 3 and later
``ucc``         ``ucc.conf``, in the grammar of ``ucc_grammar``
==============  =======================================================================================

The modules are plugins: the entry points in ``pyproject.toml`` register them, as any other package could do.
"""
