"""Report the settings in parameter files and scripts that an MPI library would silently ignore or misread.

``files.lint`` recognises the kind of each file. A function for each kind takes the text of a file and returns
findings: mistakes, each with its line and remedy.

=================  =========================================
module             kind of file
=================  =========================================
``rules``          rules files of ``coll_tuned``; ``json_rules``: rules files in JSON
``parameters``     MCA parameter files, ``--tune`` files
``scripts``        scripts: the settings of each launch; ``launch``: the options of the launcher
``shell``          the simple commands of a shell script, and the variables that reach each
``kinds``          recognising kinds
``codes``          kinds of findings; ``suppression``: comments that suppress some; ``output``: formats
``settings``       MCA parameters, alone and combined; ``runtime``: parameters of the launcher
``selection``      lists of components; ``values``: values that a library refuses or misreads
``ucx``            ``ucx.conf``; ``unread``: settings written in ways that are not followed
``vendors``        variables of libfabric, MPICH and MPIs derived from it
``traps``          plugins: files and variables of further libraries
=================  =========================================
"""
