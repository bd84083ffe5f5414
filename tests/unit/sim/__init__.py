"""The simulator: whole clusters of the real code in one process, in virtual time, under faults drawn from a seed.

`make sim SEEDS=100` runs a hundred of them on all cores; `make sim SEED=7` runs one and prints its story.

How it hangs together, from the inside out:

* `virtual`: an event loop whose time is virtual, and machines in it. Whatever a machine's code schedules belongs to
  that machine: when it stands still, so does its code, in the middle of whatever it does; when it is dead, its code is.
* `network`: requests, answers and watches on their way between machines and the API server in memory.
* `cluster`: replicas and workers, wired as in `fencepost.main`, with jobs that take their time.
* `plan`: from a seed, a cluster, DAGs and a list of steps: everything that goes wrong, and everything that people do.
  Each step stands for itself, so that a failing plan can be cut down to the few steps that matter (`shrink`).
* `dags`, `graphs`, `conditions`, `scripts`: what is drawn for DAGs, their tasks and their jobs.
* `history`: every write to the API server, in order, as values. `checkers` look at nothing else but the writes, what
  the jobs did, and, for one promise, who said that he may act. `reading` is what the documents say of graphs.
* `scene`: one seed from beginning to verdict. `mutations`: faults in the product itself, which the checkers must find.
"""
