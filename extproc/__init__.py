"""ext_proc: what must change on the way back.

An *event* is one message of Envoy about one phase of one exchange; a *reply* is our one answer to it. `machine.py` says
which event may follow which, as a table; `change.py` says what to answer; `wire.py` turns bytes into events and replies
into bytes; `service.py` runs one machine per stream.

Rule 1: exactly one reply per event, in order (CVE-2026-47207 came from more).
Rule 2: a stream that fails, fails with a status. Ending it with OK before the reply would let the response through
unprocessed, even with `failure_mode_allow` false.
"""
