"""The words that every room uses: request, verdict, reason, quota, snapshot, instant.

Rule 1: standard library only, and of it nothing that does I/O, reads a clock or draws a random number.
Rule 2: time is an int of nanoseconds since the Unix epoch, always an argument, never read here.
Rule 3: a wrong credential is a value (a `Deny` with a `Reason`); a broken dependency is an exception, and becomes a
reason in exactly one place, at the edge of the room that met it.
"""
