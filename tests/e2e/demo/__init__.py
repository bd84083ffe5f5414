"""`make demo`: two operator replicas and three workers on a real control plane, of which one each is killed.

    python -m tests.e2e.demo          play it; what is left of an earlier one is ended first
    python -m tests.e2e.demo down     end everything that it left running

What is started lives in the folder `demo` beside the built binaries and outlives the demo, so that a person can go on
with kubectl; Ctrl-C ends all of it.
"""
