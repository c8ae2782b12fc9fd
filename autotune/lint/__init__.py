"""Finds in anybody's parameter files whatever an MPI stack would silently ignore or misread.

``files.lint`` recognises the kinds of files. A function for each kind takes text and returns findings.

=================  =========================================
module             kind of file
=================  =========================================
``rules``          rules of ``coll_tuned``; ``json_rules``: those in JSON
``parameters``     MCA parameter files, ``--tune`` files
``scripts``        scripts: what reaches each launch, whose options ``launch`` reads
``shell``          the commands that a shell runs, path by path (``words``, ``worlds``); ``csh``: those of csh
``recipes``        modules, YAML, Dockerfiles, EasyBuild's recipes, lists of variables
``kinds``          which kind a file is; ``branches``: versions for which a branch is taken
``settings``       what such parameters mean together; those of the launcher: ``runtime``
``selection``      lists of components; ``values``: what a library refuses, cuts or takes for another
``ucx``            ``ucx.conf``; ``written``: files that scripts and recipes write;
                   ``unread``: settings in these that are not followed
``vendors``        variables of MPICH's family and libfabric
``traps``          plugins: files and variables of further libraries
=================  =========================================
"""
