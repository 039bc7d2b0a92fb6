"""Judges the answers of a case."""

from .compare import compare_answer, compare_right

PASSED, FAILED, KNOWN_FAULT, SKIPPED = "passed", "failed", "known-fault", "skipped"


def judge(case, answers, as_recorded):
    """(outcome, differences). known-fault: a fault case answered as the recorded server does."""
    if case.recorded is None:
        return SKIPPED, ["no recorded answer"]
    recorded_notes = [] if case.varies else _recorded_notes(case, answers)
    if as_recorded:
        return (FAILED, recorded_notes) if recorded_notes else (PASSED, [])
    right_notes = _right_notes(case, answers)
    if not right_notes:
        return PASSED, []
    if case.verdict == "fault" and not recorded_notes:
        return KNOWN_FAULT, right_notes
    return FAILED, right_notes


def _recorded_notes(case, answers):
    return [n for i in range(len(case.steps)) for n in _numbered(case, i, _step_notes(case, answers, i))]


def _right_notes(case, answers):
    """As recorded, but where the case says what is right."""
    notes = []
    for index in range(len(case.steps)):
        if index in case.expected_right:
            found = compare_right(case.expected_right[index], answers[index])
        else:
            found = _step_notes(case, answers, index)
            if found and index in case.also and not compare_right(case.also[index], answers[index]):
                found = []
        notes += _numbered(case, index, found)
    return notes


def _step_notes(case, answers, index):
    return compare_answer(case.steps[index], case.recorded[index], answers[index])


def _numbered(case, index, notes):
    return notes if case.single else [f"step {index}: {n}" for n in notes]
