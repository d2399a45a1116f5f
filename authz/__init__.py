"""May this request pass? The ext_authz service, one check a file, all of them pure.

`wire.py` reads Envoy's CheckRequest into a `Request`; `decide.py` holds the order of the checks as one tuple, `STEPS`,
and the one loop that runs it. A step looks at the `Evidence` and answers None (go on), a `Verdict` (stop), or an `Ask`:
something that only the outside can tell, as whether a quota has room. `gather.py` is the only module that waits: it
performs the asks and feeds the replies back. Only the last step can allow. `resident.py` is what a decision reads: the
snapshot, parsed once, and the caches that hang on it. A wrong credential is a value; what breaks is caught in
`service.py`, outermost, and becomes a refusal.
"""
