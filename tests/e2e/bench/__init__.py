"""What a job costs: real operators and workers on a control plane of their own, and everything they write counted.

    python -m tests.e2e.bench --shape single --rate 60 --duration 60

One JSON line a shape. Writes are counted by the API server itself (`apiserver_request_total`), CPU by the kernel, start
lag from the moment the run was asked for to the moment its first job began. Counts are exact; times hold for the
machine that they were measured on, with everything on it.
"""
