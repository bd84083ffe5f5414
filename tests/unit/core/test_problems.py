"""A problem says where, what and what to do."""

from fencepost.core.problems import Problem


def test_a_problem_reads_as_place_fact_and_remedy() -> None:
    problem = Problem("InvalidCron", "cron[0]", "'61' is no minute", "use 0 to 59")

    assert str(problem) == "cron[0]: '61' is no minute; use 0 to 59"
    assert str(problem.below("spec.schedule")) == "spec.schedule.cron[0]: '61' is no minute; use 0 to 59"


def test_a_problem_without_a_place_takes_that_of_whoever_holds_it() -> None:
    problem = Problem("InvalidCron", "", "'61' is no minute", "use 0 to 59")

    assert str(problem) == "'61' is no minute; use 0 to 59"
    assert problem.below("spec.at").path == "spec.at"
