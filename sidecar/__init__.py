"""The composition root: the only room that knows all others, and that reads clocks, files, signals and the environment.

`build.py` puts the services together, `server.py` is the port under which a gRPC server can be exchanged, `process.py`
is the life of one worker, `supervisor.py` that of their parent, and `__main__.py` the command line.
"""
